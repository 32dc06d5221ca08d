package machine

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/shellword"
)

// preparation is what a system has in addition to a bare machine, such as curl, an agent or a site's CA.
type preparation struct {
	folder string // files for each machine; "" for nothing
	script string // runs in the folder on each machine, as root
}

// preparedIn is where the folder is on a machine.
const preparedIn = "/var/tmp/sealift-testgrid-prepare"

// Make returns bare machines of a system, with the preparation of HOSTS.yaml. If it fails, it leaves none behind.
func (h *Hosts) Make(ctx context.Context, w Request) ([]Machine, error) {
	machines, err := h.kinds[w.System].Make(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		if err := h.prepared[w.System].prepareIn(ctx, m); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", m.Name(), err), removeAll(ctx, machines))
		}
	}
	return machines, nil
}

// prepareTime bounds the preparation of one machine, whose script may wait forever.
const prepareTime = 20 * time.Minute

func (p preparation) prepareIn(ctx context.Context, m Machine) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	return p.prepare(ctx, m)
}

func (p preparation) prepare(ctx context.Context, m Machine) error {
	if p.folder != "" {
		if err := putFolder(ctx, m, p.folder, preparedIn); err != nil {
			return err
		}
	}
	if p.script == "" {
		return nil
	}
	_, err := Output(ctx, m, "mkdir -p "+preparedIn+" && cd "+preparedIn+" || exit; bash -euo pipefail -c "+shellword.Quote(p.script)+" >&2; code=$?; rm -rf "+preparedIn+"; exit $code")
	return err
}

// putFolder copies the content of a folder to a machine.
func putFolder(ctx context.Context, m Machine, from, to string) error {
	content, stream := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		archive := tar.NewWriter(stream)
		err := archive.AddFS(os.DirFS(from))
		if err == nil {
			err = archive.Close()
		}
		packed <- err
		stream.CloseWithError(err)
	}()
	var stderr strings.Builder
	err := m.Run(ctx, Command{Script: "mkdir -p " + shellword.Quote(to) + " && tar x --no-same-owner -C " + shellword.Quote(to), Stdin: content, Stderr: &stderr})
	if err != nil {
		err = fmt.Errorf("put %s on %s: %w: %s", from, m.Name(), err, strings.TrimSpace(stderr.String()))
	}
	return errors.Join(err, content.Close(), unlessClosed(<-packed))
}

// unlessClosed drops the error that the reader's end causes.
func unlessClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// preparation reads what a system has in addition to a bare machine.
func (r *reader) preparation(n *yaml.Node) (p preparation) {
	if !r.IsMapping(n, "prepare") {
		return p
	}
	fields := r.Fields(n, "prepare", "folder", "script")
	if len(fields) == 0 {
		r.Errorf(r.Pos(n), "write prepare: {folder: debs, script: 'dpkg -i *.deb'}", "prepare has neither folder nor script")
	}
	if folder := fields["folder"]; folder != nil {
		p.folder = r.path(r.Text(folder, "prepare.folder"))
		if info, err := os.Stat(p.folder); err != nil || !info.IsDir() {
			r.Errorf(r.Pos(folder), "", "%s is not a folder", p.folder)
		}
	}
	if script := fields["script"]; script != nil {
		p.script = r.Text(script, "prepare.script")
	}
	return p
}
