package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/sealift/sealift/testgrid/lab/host"
)

// bareInit is kubeadm on a host that has everything else, with the configuration that the install wrote. sameWork then applies
// the add-ons that the install rendered, and ends when everything is as ready as after an install. Removing the earlier cluster
// is not measured.
const (
	takeAway = `kubeadm reset --force >/dev/null 2>&1; rm -rf /etc/cni/net.d /run/flannel /var/lib/etcd; systemctl restart containerd; ip link delete cni0 2>/dev/null; ip link delete flannel.1 2>/dev/null; true`
	bareInit = `exec >/tmp/bare.log; trap '[ $? = 0 ] || tail -n 20 /tmp/bare.log >&2' EXIT; set -e
kubeadm init --config /var/lib/sealift/kustomize/kubeadm/kubeadm.yaml --skip-token-print 2>&1
`
	sameWork = bareInit + `export KUBECONFIG=/etc/kubernetes/admin.conf
for set in /var/lib/sealift/kustomize/*/kustomization.yaml; do kubectl apply --server-side -k "$(dirname "$set")"; done
kubectl wait --for=condition=Ready --timeout=5m nodes --all
kubectl get deployments,daemonsets -A --no-headers -o custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name |
    while read -r kind namespace name; do kubectl -n "$namespace" rollout status --timeout=5m "$kind/$name" </dev/null; done
kubectl wait --for=condition=Available --timeout=5m apiservices --all`
	airgap = `cd /media/usb && cat install.sh | bash -s airgap`
)

// install measures a complete install from a bundle on a lab host, and then on the same host kubeadm alone, and kubeadm and
// kubectl with the same add-ons: once in each round, on a new host. It prints the medians, and for the slowest steps of the install
// how long they took and when they ended.
func (b *bench) install(ctx context.Context, addOns []string) error {
	name := fmt.Sprintf("usb-%d", len(addOns))
	usb, err := b.usb(ctx, name, installerOf(addOns...), addOns)
	if err != nil {
		return err
	}
	rack, err := host.OpenRack(ctx, host.Options{})
	if err != nil {
		return err
	}
	rows := []installRow{
		{name: "kubeadm init alone, images present"}, {name: "kubeadm init and kubectl apply, images present, until all is ready"},
		{name: "whole install from the bundle"},
	}
	var said string
	steps := stepTimes{}
	for range b.rounds {
		seconds, text, err := installOnce(ctx, rack, usb, steps)
		if err != nil {
			return err
		}
		said = text
		for n := range rows {
			rows[n].seconds = append(rows[n].seconds, seconds[n])
		}
	}
	t := newTable("\twall s\ttimes the first's wall\ttimes the second's\t")
	for _, row := range rows {
		m := middle(row.seconds)
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.2f\t\n", row.name, m, m/middle(rows[0].seconds), m/middle(rows[1].seconds))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.aim(fmt.Sprintf("install: %d add-ons, wall", len(addOns)), middle(rows[2].seconds)/middle(rows[1].seconds), 1.15, "x")
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "phase ") || strings.HasPrefix(line, "peak ") {
			fmt.Print("   ", line)
		}
	}
	return steps.print()
}

// installRow is a row of install's table: one measurement in each round.
type installRow struct {
	name    string
	seconds []float64
}

// installOnce measures one round of install on a new host: kubeadm alone, kubeadm and kubectl, and the whole install, which runs first.
func installOnce(ctx context.Context, rack *host.Rack, usb string, steps stepTimes) (seconds [3]float64, said string, err error) {
	h, err := rack.Boot(ctx, host.Spec{USB: []string{usb}})
	if err != nil {
		return seconds, "", err
	}
	defer func() { _ = rack.Remove(context.WithoutCancel(ctx), h.Name()) }()
	whole, err := timed(ctx, h, "/media/usb/time --format='peak of the installer %M KiB' bash -c '"+airgap+"'")
	if err != nil {
		return seconds, "", err
	}
	journal, err := timed(ctx, h, "sealift journal -o json")
	if err == nil {
		err = steps.add(journal.said, whole)
	}
	if err != nil {
		return seconds, "", err
	}
	seconds[2] = whole.seconds
	for n, script := range []string{bareInit, sameWork} {
		if _, err := timed(ctx, h, takeAway); err != nil {
			return seconds, "", err
		}
		reference, err := timed(ctx, h, script)
		if err != nil {
			return seconds, "", err
		}
		seconds[n] = reference.seconds
	}
	return seconds, whole.said, nil
}

type outcome struct {
	began   time.Time
	seconds float64
	said    string
}

// timed runs a script in a host.
func timed(ctx context.Context, h *host.Host, script string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	var out bytes.Buffer
	begin := time.Now()
	err := h.Exec(ctx, host.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w\n%s", script, err, out.String())
	}
	return outcome{begin, time.Since(begin).Seconds(), out.String()}, nil
}

// command runs commands without measuring them.
func command(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", strings.Join(args, " "), err), errors.New(string(out)))
		}
	}
	return nil
}
