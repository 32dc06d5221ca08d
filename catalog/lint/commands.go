package lint

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/manifest"
)

// Core is what hooks find beyond their own files, on every node.
type Core struct {
	Functions []string // of the shell that runs hooks
	Programs  []string // in $DIR/bin
}

// basePrograms are those of a bare host of every system that an install supports, and what bash has built in.
const basePrograms = `
	. : [ alias bg bind break builtin caller cd command compgen complete continue declare dirs disown echo enable eval exec exit export
	false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set
	shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait

	arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df dir dircolors dirname
	du env expand expr factor fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl
	nohup nproc numfmt od paste pathchk pinky pr printenv ptx readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum
	sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee timeout touch tr truncate tsort tty uname unexpand uniq
	unlink users vdir wc who whoami yes

	awk bash cmp diff diff3 egrep fgrep find getent gunzip gzip grep hostname iconv ldconfig ldd locale login mount nsenter sed sdiff sh
	su tar umount unshare xargs zcat zgrep

	blkid blockdev chrt dmesg fallocate findfs findmnt flock fsck fsfreeze getopt hwclock ionice ipcrm ipcs kill logger losetup lsblk
	lscpu lsipc lsns mkfs mkswap mountpoint partx pivot_root prlimit renice rev script setpriv setsid swapoff swapon switch_root taskset
	wipefs

	addgroup adduser chage chpasswd groupadd groupdel groupmod nologin passwd useradd userdel usermod
	free pgrep pidof pkill ps pmap slabtop sysctl top uptime vmstat watch
	busctl hostnamectl journalctl localectl loginctl networkctl systemctl systemd-analyze systemd-cat systemd-run systemd-tmpfiles
	timedatectl udevadm
`

// packageManagers are there on systems of their family, and hooks ask which one it is. So are those of the container engine that
// kURL's add-ons move away from.
const packageManagers = `apt apt-cache apt-get apt-mark dpkg dpkg-query dnf rpm yum yum-config-manager docker`

// clusterPrograms are those that Kubernetes and its container runtime bring, and the packages that they need on every node.
const clusterPrograms = `
	containerd ctr kubeadm kubectl kubelet runc
	conntrack ethtool ip bridge ss tc ip6tables ip6tables-restore ip6tables-save iptables iptables-restore iptables-save
	depmod insmod lsmod modinfo modprobe rmmod socat
`

// programsOf are the programs of packages that have another name.
func programsOf(name string) []string {
	return strings.Fields(map[string]string{
		"nfs-common": "mount.nfs showmount nfsstat", "nfs-utils": "mount.nfs showmount nfsstat", "open-iscsi": "iscsiadm",
		"iscsi-initiator-utils": "iscsiadm", "lvm2": "lvs vgs pvs lvcreate vgcreate pvcreate vgchange lvm", "pciutils": "lspci",
		"debianutils": "which", "xfsprogs": "xfs_info mkfs.xfs", "e2fsprogs": "mkfs.ext4", "procps-ng": "ps", "util-linux": "lsblk",
	}[name])
}

// calls are the commands of an install.sh.
type calls struct {
	made   []call
	words  map[string]map[string]bool // of commands and their arguments, by the function that they stand in
	looked map[string]bool            // commands that the script looks for before it calls them
}

// name says whether a word stands anywhere in a command.
func (c calls) name(word string) bool {
	for _, words := range c.words {
		if words[word] {
			return true
		}
	}
	return false
}

type call struct {
	name string
	from string // the function, "" at the top level
	at   syntax.Pos
}

// bundledAsset is a condition that is never true for an asset of the Manifest: that it is missing.
var bundledAsset = regexp.MustCompile(`! -f \S*/assets/([A-Za-z0-9._-]+)`)

// calls collects what the script calls, and from where.
func (c *checker) calls(functions []*syntax.FuncDecl) calls {
	found := calls{words: make(map[string]map[string]bool), looked: make(map[string]bool)}
	var collect func(from string, node syntax.Node)
	collect = func(from string, node syntax.Node) {
		syntax.Walk(node, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.FuncDecl:
				return false // collected for itself
			case *syntax.IfClause:
				if c.neverTrue(n) {
					return false
				}
			case *syntax.CallExpr:
				c.call(&found, from, n)
			}
			return true
		})
	}
	collect("", c.script.File)
	for _, fn := range functions {
		collect(fn.Name.Value, fn.Body)
	}
	return found
}

// neverTrue says whether a condition, and with it what it guards, only serves an add-on whose assets were not packed.
func (c *checker) neverTrue(n *syntax.IfClause) bool {
	var text strings.Builder
	for _, stmt := range n.Cond {
		if syntax.NewPrinter().Print(&text, stmt) != nil {
			return false
		}
	}
	found := bundledAsset.FindStringSubmatch(text.String())
	return found != nil && n.Else == nil && slices.ContainsFunc(c.assets, func(a manifest.Asset) bool { return a.Name == found[1] })
}

// call notes one command, and the ones that its arguments are.
func (c *checker) call(found *calls, from string, n *syntax.CallExpr) {
	var words []string
	for _, arg := range n.Args {
		text, _ := c.script.Text(arg)
		words = append(words, text)
		if found.words[from] == nil {
			found.words[from] = make(map[string]bool)
		}
		found.words[from][text] = true
	}
	words, looked := unwrapped(words)
	if looked {
		for _, word := range words {
			found.looked[word] = true
		}
		return
	}
	if len(words) > 0 {
		found.made = append(found.made, call{words[0], from, n.Pos()})
	}
}

// unwrapped takes away programs and functions that run the command in their arguments. looked says that what is left are commands
// that are looked for and not run.
func unwrapped(words []string) (_ []string, looked bool) {
	for len(words) > 1 {
		name := words[0]
		switch name {
		case "commandExists", "which", "type", "hash":
			return words, name != "which"
		case "command":
			if strings.HasPrefix(words[1], "-") {
				return words[2:], true
			}
		case "nohup", "sudo", "exec", "env", "nice", "time", "try_1m", "try_1m_stderr", "try_5m", "maybe", "timeout", "xargs", "spinner_until", "cmd_retry":
		default:
			return words, false
		}
		words = withoutOptions(words[1:], valued(name))
		if slices.Contains([]string{"timeout", "spinner_until", "cmd_retry"}, name) && len(words) > 0 {
			words = words[1:] // how long, or how often
		}
	}
	return words, false
}

// valued are the options of a program whose value is a word of its own.
func valued(program string) []string {
	return map[string][]string{
		"xargs": {"-I", "-n", "-L", "-P", "-d", "-a", "-s"}, "timeout": {"-k", "-s"}, "nice": {"-n"}, "sudo": {"-u", "-g"}, "env": {"-u", "-C"},
	}[program]
}

// withoutOptions drops what stands before a command: options, but not -1, and variables.
func withoutOptions(words, valued []string) []string {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") && words[0] != "-1" || strings.Contains(words[0], "=")) {
		skip := 1
		if slices.Contains(valued, words[0]) {
			skip = 2
		}
		words = words[min(skip, len(words)):]
	}
	return words
}

// plainName is one of a program or function: no path, and nothing that only the running script knows.
var plainName = regexp.MustCompile(`^[A-Za-z_.][A-Za-z0-9_.+-]*$`)

// commands tells each command that a hook may reach and that nothing brings, where it is first called.
func (c *checker) commands(functions []*syntax.FuncDecl, calls calls) {
	reached := c.reached(functions, calls)
	told := make(map[string]bool)
	for _, call := range calls.made {
		name, ours := strings.CutPrefix(call.name, "$DIR/bin/")
		if !reached[call.from] || told[name] || !plainName.MatchString(name) || calls.looked[name] {
			continue
		}
		told[name] = true
		switch {
		case ours && !slices.Contains(c.core.Programs, name):
			c.rule(c.at(call.at), "there are: "+strings.Join(c.core.Programs, ", "), "$DIR/bin has no program %s", name)
		case ours || reached[name] || c.brought(name):
		case strings.Contains(name, "_"):
			c.rule(c.at(call.at), "write it in this file, or look for it first with commandExists", "no function or program is named %s", name)
		default:
			c.rule(c.at(call.at), "name its package in the Manifest, for apt and for yum, or look for it first with commandExists",
				"nothing brings the program %s, and a bare host may lack it", name)
		}
	}
}

// reached lists the functions that hooks call, by way of others too. Any word that is a function's name counts as a call: it may
// be the argument of one that calls it.
func (c *checker) reached(functions []*syntax.FuncDecl, calls calls) map[string]bool {
	reached := map[string]bool{"": true}
	next := []string{""}
	for _, fn := range functions {
		if c.isHook(fn.Name.Value) {
			next = append(next, fn.Name.Value)
		}
	}
	for len(next) > 0 {
		from := next[0]
		reached[from], next = true, next[1:]
		for _, fn := range functions {
			if name := fn.Name.Value; calls.words[from][name] && !reached[name] {
				reached[name] = true
				next = append(next, name)
			}
		}
	}
	return reached
}

// brought says whether a command is there: on a bare host, by what every cluster has, or by the add-on's Manifest.
func (c *checker) brought(name string) bool {
	if c.known[name] {
		return true
	}
	for _, p := range c.packages {
		if p.Name == name || slices.Contains(programsOf(p.Name), name) {
			return true
		}
	}
	return slices.ContainsFunc(c.assets, func(a manifest.Asset) bool {
		stem, _, _ := strings.Cut(a.Name, ".")
		return stem == name
	})
}
