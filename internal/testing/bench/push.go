package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/testing/realregistry"
)

// pushes compares the ways to fill an empty registry with the demo's images. The peers copy them from the mirror's registry: skopeo reads
// no OCI layout with Docker's manifest lists in it.
func (b *bench) pushes(ctx context.Context) ([]benchCase, error) {
	bundle, err := b.demoBundle(ctx, "")
	if err != nil {
		return nil, err
	}
	refs, err := b.imagesOf(bundle)
	if err != nil {
		return nil, err
	}
	var stop func()
	fresh := func(dir string) (err error) {
		data := filepath.Join(dir, "out") // the registry's files are the result
		if err := os.Mkdir(data, 0o755); err != nil {
			return err
		}
		var host string
		if host, stop, err = realregistry.Run(ctx, b.workshop, data); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "host"), []byte(host), 0o600)
	}
	after := func() {
		if stop != nil {
			stop()
			stop = nil
		}
	}
	skopeo, oras := "to=$(cat host)/mirror\n", "to=$(cat host)/mirror\n"
	for _, ref := range refs {
		skopeo += fmt.Sprintf("skopeo copy --quiet --all --src-tls-verify=false --dest-tls-verify=false docker://%s/%s docker://$to/%s\n", b.registry, ref, ref)
		oras += fmt.Sprintf("%s cp --no-tty --from-plain-http --to-plain-http %s/%s $to/%s >/dev/null\n", b.oras, b.registry, ref, ref)
	}
	push := fmt.Sprintf("%s push %s oci://$(cat host)/mirror --only image --yes >/dev/null 2>&1", b.sealift, bundle)
	again := func(dir string) error {
		if err := fresh(dir); err != nil {
			return err
		}
		return b.shell(dir, push)
	}
	return []benchCase{
		{name: "skopeo copy --all, one by one", prepare: fresh, script: skopeo, after: after},
		{name: "oras cp, one by one", prepare: fresh, script: oras, after: after},
		{name: "sealift push", prepare: fresh, script: push, after: after, limits: limits{wall: 0.6, peak: 128}},
		{name: "again, all present", prepare: again, script: push, after: after, limits: limits{wall: 0.05}},
	}, nil
}
