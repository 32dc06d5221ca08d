package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// unpackedPackage is how many times larger than its file a .deb or .rpm is once installed, at most, for packages of add-ons.
const unpackedPackage = 5

// clusterSpace is the space for etcd, logs and pods in a new cluster's first days, and the kubelet's free space.
const clusterSpace = 2 << 30

// filesPerImage is about how many files an image has: those of Kubernetes a few dozen, one with a distribution thousands.
const filesPerImage = 500

// whole reads all of the bundle, so that damage is found before anything is changed and not in the middle. Content is verified
// again when it is used: a disk may have been swapped.
func (i *Install) whole(ctx context.Context, r *preflight.Reporter) {
	if len(i.Pending()) == 0 {
		r.Passf("not looked at: nothing of it is needed")
		return
	}
	if i.Joins() {
		i.shared(ctx, r)
		return
	}
	if i.options.Remote {
		r.Passf("%d files on the server, each checked while it is used", len(i.archive.Index.Entries))
		return
	}
	err := i.archive.Verify(ctx)
	if space, ok := errors.AsType[*bundle.SpaceError](err); ok {
		r.Refusef("free some, or name a folder on another disk with TMPDIR", "%v", space)
		return
	}
	if err != nil {
		r.Refusef("copy the bundle again", "damaged: %v", err)
		return
	}
	if p := i.archive.Parts(); p != nil {
		if repaired := p.Repaired(); len(repaired) > 0 {
			r.Warnf("replace these parts before others are damaged, too", "%d files are as its index says; %s", len(i.archive.Index.Entries), strings.Join(repaired, "; "))
			return
		}
	}
	r.Passf("%d files are as its index says", len(i.archive.Index.Entries))
}

// addressCheck requires an address at which other nodes and the node itself reach the API server.
func (j *job) addressCheck(_ context.Context, r *preflight.Reporter) {
	if j.checkAddress() != nil {
		return // the requirement of this name has the reason
	}
	if address := j.settings.address; address != "" {
		if !network.HasAddress(address) {
			r.Failf("name an address of this host as kurl.privateAddress in the Installer, or leave it out", "no interface has %s", address)
			return
		}
		chosen := j.address.Address.IsValid() && j.address.Address.String() == address
		switch {
		case chosen && len(j.address.Others) > 0:
			r.Warnf("if that is wrong, add private-address="+j.address.Others[0].Address.String()+" to the command, or set kurl.privateAddress in the Installer",
				"%s; it could also be %s", j.address, listCandidates(j.address.Others))
		case chosen:
			r.Passf("%s", j.address)
		default:
			r.Passf("%s", address)
		}
		return
	}
	r.Failf("give an interface an IPv4 address, or name one as kurl.privateAddress in the Installer", "no interface has an IPv4 address")
}

func listCandidates(all []network.Candidate) string {
	var names []string
	for _, c := range all {
		names = append(names, c.String())
	}
	return strings.Join(names, " or ")
}

// programsSize is how many bytes of programs the node keeps beside its own.
func (i *Install) programsSize() (size uint64) {
	programs := []string{bundle.PreflightName, bundle.ProgramPath(bundle.PreflightName, host.Platform)}
	if console, ok := i.console(); ok {
		programs = append(programs, console.Path)
	}
	for _, platform := range i.foreignPlatforms() {
		if i.ControlPlane() {
			programs = append(programs, bundle.ProgramPath(bundle.BinaryName, platform), bundle.ProgramPath(bundle.PreflightName, platform))
		}
	}
	for _, name := range programs {
		program, _ := i.archive.Entry(name)
		size += uint64(program.Size)
	}
	return size
}

// needs computes from the index what the pending steps will take.
func (i *Install) needs() (preflight.Needs, error) {
	n := preflight.Needs{Platforms: i.archive.Index.Platforms, Targets: i.targets(), IPv6: i.settings.ipv6 || i.settings.dual(),
		Resumed: i.Journal.Began(node.InitStep) || i.Journal.Began(node.JoinStep)}
	if _, hasCluster := kubernetes(i.addOns); hasCluster {
		n.Role = preflight.ControlPlane
	}
	if file, err := os.Stat(i.options.Bundle); err == nil { // a bundle that a server streams has no file
		n.Written = file.ModTime()
	}
	for _, a := range i.addOns {
		n.AddOns = append(n.AddOns, a.name())
	}
	pending := make(map[string]bool)
	for _, step := range i.Pending() {
		pending[step.ID] = true
	}
	var files, programs, packages, count, imageFiles uint64
	if pending["node/sealift"] {
		files = i.programsSize()
	}
	var loaded []addOn
	for _, a := range i.addOns {
		if pending[a.name()+"/files"] {
			for _, e := range i.archive.Below(a.info.Dir()) {
				if !i.onNode(a, e) {
					continue
				}
				files += uint64(e.Size)
				count++
				switch {
				case strings.HasPrefix(e.Path, path.Join(a.info.Dir(), "assets")+"/"):
					programs += uint64(e.Size)
				case !i.settings.skipPackages && (strings.HasSuffix(e.Path, ".deb") || strings.HasSuffix(e.Path, ".rpm")):
					packages += unpackedPackage * uint64(e.Size)
				}
			}
		}
		if pending[a.name()+"/images"] {
			loaded = append(loaded, a)
			imageFiles += filesPerImage * uint64(len(i.nodeImages(a).Images))
		}
	}
	images, err := i.imageSize(loaded...)
	if err != nil {
		return n, err
	}
	n.Space = []preflight.Space{
		{Path: i.options.Root, Bytes: files, Files: count}, {Path: filepath.Dir(node.Binary), Bytes: programs}, {Path: "/usr", Bytes: packages},
		{Path: node.ContainerdDir, Bytes: imageSpace(images), Files: imageFiles},
	}
	if dir, made := i.archive.PatchSpace(); made > 0 && !i.Joins() {
		n.Space = append(n.Space, preflight.Space{Path: dir, Bytes: made})
	}
	if pending[node.InitStep] || pending[node.JoinStep] && i.ControlPlane() {
		n.Space = append(n.Space, preflight.Space{Path: "/var/lib/etcd", Bytes: clusterSpace})
	}
	return n, nil
}

// content is what the whole bundle takes on this node. The next upgrade is expected to bring as much.
func (i *Install) content() (c node.Content, err error) {
	for _, a := range i.addOns {
		for _, e := range i.archive.Below(a.info.Dir()) {
			if i.onNode(a, e) {
				c.Files += uint64(e.Size)
			}
		}
	}
	images, err := i.imageSize(i.addOns...)
	c.Images = images + clusterSpace
	return c, err
}

// imageSpace is what images still need: an interrupted install has already loaded some. The kubelet needs some of the same disk
// to stay free.
func imageSpace(all uint64) uint64 {
	if all == 0 {
		return 0
	}
	var there uint64
	_ = filepath.WalkDir(node.ContainerdDir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // not there yet, or going away: then it takes no space
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			there += uint64(info.Size())
		}
		return nil
	})
	return all - min(all, there) + clusterSpace
}

// targets are those that every package with host packages has.
func (j *job) targets() []string {
	if j.settings.skipPackages {
		return nil
	}
	var common []string
	first := true
	for _, a := range j.addOns {
		if !a.carriesHostPackages() {
			continue
		}
		if first {
			common, first = slices.Clone(a.info.Targets), false
		}
		common = slices.DeleteFunc(common, func(t string) bool { return !slices.Contains(a.info.Targets, t) })
	}
	return common
}
