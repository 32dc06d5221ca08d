package machine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/machine"
)

// load reads a HOSTS.yaml in a separate folder.
func load(t *testing.T, text string, files ...string) (*machine.Hosts, error) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		if err := fixture.WriteProgram(filepath.Join(dir, files[i]), files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "hosts.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return machine.Load(path, machine.Options{Progress: func(line string) { t.Log(line) }})
}

func kind(t *testing.T, hosts *machine.Hosts, err error) machine.Provider {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return hosts.Kind("x")
}

// sshHosts is the HOSTS.yaml of some machines that are reached by SSH.
func sshHosts(s sshd, n int, more string) string {
	text := "systems:\n  x:\n    ssh:\n      bare: {script: 'true'}\n" + more + "      machines:\n"
	for i := range n {
		text += fmt.Sprintf("      - {name: m%d, address: 127.0.0.1, port: %s, key: %q, hostKey: %s}\n", i, s.port, s.keyFile, s.hostKey)
	}
	return text
}

// program is a kind of machine that is this machine itself.
const program = `#!/bin/bash
set -eu
cd "$(dirname "$0")"
echo "$1" >>log
case $1 in
clean) ;;
make) cat >wish; echo '[{"name": "one", "address": "127.0.0.1", "can": ["power-cycle", "egress"]}]' ;;
run) exec bash -c "$3" ;;
egress) echo '[{"address": "203.0.113.7", "protocol": "tcp", "port": 443, "packets": 3, "process": "curl"}]' ;;
esac
`

// TestProvidersKeepMachineContract runs the same expectations on all kinds.
func TestProvidersKeepMachineContract(t *testing.T) {
	kinds := map[string]func(t *testing.T) machine.Provider{
		"ssh": func(t *testing.T) machine.Provider {
			hosts, err := load(t, sshHosts(startSSHD(t), 1, ""))
			return kind(t, hosts, err)
		},
		"command": func(t *testing.T) machine.Provider {
			hosts, err := load(t, "systems: {x: {command: ./hosts}}\n", "hosts", program)
			return kind(t, hosts, err)
		},
		"lab": func(t *testing.T) machine.Provider {
			short.Skip(t, "a host of the lab")
			hosts, err := load(t, "systems: {x: {lab: debian-12}}\n")
			return kind(t, hosts, err)
		},
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			k := make(t)
			if err := k.Clean(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			machines, err := k.Make(t.Context(), machine.Request{System: "x", Count: 1, CPU: 1, Memory: 1 << 30})
			if err != nil || len(machines) != 1 {
				t.Fatalf("%v, %v", machines, err)
			}
			m := machines[0]
			t.Cleanup(func() {
				if err := m.Remove(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			contract(t, m)
		})
	}
}

func contract(t *testing.T, m machine.Machine) {
	if m.Name() == "" || m.Address() == "" {
		t.Errorf("name %q, address %q", m.Name(), m.Address())
	}
	var out, errOut strings.Builder
	err := m.Run(t.Context(), machine.Command{Script: "read -r line; echo \"got $line\"; echo 'it'\"'\"'s bad' >&2; exit 42", Stdin: strings.NewReader("a $b\nrest"), Stdout: &out, Stderr: &errOut})
	var exit *machine.ExitError
	if !errors.As(err, &exit) || exit.Code != 42 || out.String() != "got a $b\n" || errOut.String() != "it's bad\n" {
		t.Errorf("%v, %q, %q", err, out.String(), errOut.String())
	}
	if who, err := machine.Output(t.Context(), m, "id -u"); err != nil || who != "0" && os.Getuid() == 0 {
		t.Errorf("scripts run as user %s, %v", who, err)
	}
	if _, err := machine.Output(t.Context(), m, "cat"); err != nil {
		t.Errorf("nil streams are not empty: %v", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "it's", "a file")
	if err := machine.Put(t.Context(), m, strings.NewReader("content"), path, "0750"); err != nil {
		t.Error(err)
	}
	var copied strings.Builder
	mode, _ := machine.Output(t.Context(), m, "stat -c %a "+shellword.Quote(path))
	if err := machine.Get(t.Context(), m, path, &copied); err != nil || copied.String() != "content" || mode != "750" {
		t.Errorf("copied %q with mode %s, %v", copied.String(), mode, err)
	}
	if err := machine.Get(t.Context(), m, dir+"/none", &copied); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a missing file: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := m.Run(ctx, machine.Command{Script: "sleep 30"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a script that takes too long: %v", err)
	}
}

func TestMachineWithUnknownHostKeyIsRefused(t *testing.T) {
	s := startSSHD(t)
	stranger := startSSHD(t)
	s.hostKey = stranger.hostKey
	hosts, err := load(t, sshHosts(s, 1, ""))
	_, err = kind(t, hosts, err).Make(t.Context(), machine.Request{Count: 1})
	if err == nil || !strings.Contains(err.Error(), "check user, key and hostKey") || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("got %v", err)
	}
	s = startSSHD(t)
	s.keyFile = stranger.keyFile
	hosts, err = load(t, sshHosts(s, 1, ""))
	if _, err = kind(t, hosts, err).Make(t.Context(), machine.Request{Count: 1}); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("with another key: %v", err)
	}
}

// TestSilentMachineEndsWait uses a machine that dies after a login. A wait for it ends with its time.
func TestSilentMachineEndsWait(t *testing.T) {
	t.Parallel()
	hosts, err := load(t, sshHosts(startServer(t, silent), 1, ""))
	k := kind(t, hosts, err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := k.Make(ctx, machine.Request{Count: 1})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for ever")
	}
}

// TestTestsQueueForMachines lends two machines to three tests. One gets none that was kept.
func TestTestsQueueForMachines(t *testing.T) {
	hosts, err := load(t, sshHosts(startSSHD(t), 2, ""))
	k := kind(t, hosts, err)
	first, err := k.Make(t.Context(), machine.Request{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := k.Make(ctx, machine.Request{Count: 2}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two of one free machine: %v", err)
	}
	second := make(chan error)
	go func() {
		machines, err := k.Make(t.Context(), machine.Request{Count: 2})
		if err == nil {
			err = machines[0].(machine.Keeper).Keep(t.Context())
			err = errors.Join(err, machines[1].Remove(t.Context()))
		}
		second <- err
	}()
	if err := first[0].Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if _, err := k.Make(t.Context(), machine.Request{Count: 2}); err == nil || !strings.Contains(err.Error(), "only 1 in HOSTS.yaml can be used") {
		t.Errorf("a kept machine was lent: %v", err)
	}
}

func TestAirgapTestNeedsTrafficCounters(t *testing.T) {
	hosts, err := load(t, sshHosts(startSSHD(t), 1, ""))
	if _, err := kind(t, hosts, err).Make(t.Context(), machine.Request{Count: 1, Airgap: true}); !errors.Is(err, machine.ErrUnable) {
		t.Errorf("machines that nobody counts for: %v", err)
	}
	hosts, err = load(t, sshHosts(startSSHD(t), 1, "      egress: [./count, now]\n      powerCycle: ./cycle\n"),
		"count", "#!/bin/sh\necho '[{\"address\": \"203.0.113.7\", \"packets\": 1, \"process\": \"'$1 $SEALIFT_MACHINE'\"}]'\n", "cycle", "#!/bin/sh\nexit 3\n")
	machines, err := kind(t, hosts, err).Make(t.Context(), machine.Request{Count: 1, Airgap: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := machines[0].(machine.EgressCounter).Egress(t.Context())
	if err != nil || len(got) != 1 || got[0].String() != "203.0.113.7 by now m0" {
		t.Errorf("%v, %v", got, err)
	}
	if err := machines[0].(machine.PowerCycler).PowerCycle(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails: %v", err)
	}
}

func TestFailingProviderProgramIsNamed(t *testing.T) {
	for behaviour, row := range map[string]struct{ answer, want string }{
		"no JSON":           {"ready", "did not print a JSON list"},
		"too few":           {"[]", "printed 0 machines, not 1"},
		"no address":        {`[{"name": "a"}]`, "without a name or an address"},
		"nothing":           {"[null]", "without a name or an address"},
		"nobody counts":     {`[{"name": "a", "address": "b"}]`, "does not count"},
		"it fails, and why": {"'; echo no quota >&2; exit 1; echo '", "no quota"},
	} {
		hosts, err := load(t, "systems: {x: {command: [./hosts]}}\n", "hosts", "#!/bin/sh\n[ $1 != make ] || echo '"+row.answer+"'\n")
		_, err = kind(t, hosts, err).Make(t.Context(), machine.Request{Count: 1, Airgap: true})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", behaviour, err)
		}
	}
}

// TestMachinesArePrepared runs the preparations of HOSTS.yaml. If one fails, no machine is left.
func TestMachinesArePrepared(t *testing.T) {
	out, folder := filepath.Join(t.TempDir(), "out"), t.TempDir() // not the folder of the program, which writes a log while it is packed
	if err := os.WriteFile(filepath.Join(folder, "note"), []byte("carried\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts, err := load(t, "systems:\n  x: {command: ./hosts, prepare: {folder: "+folder+", script: 'cp note "+out+"'}}\n  y: {command: ./hosts, prepare: {script: 'echo no room; exit 3'}}\n",
		"hosts", program+`[ "$1" != remove ] || touch `+out+".removed\n")
	if err != nil {
		t.Fatal(err)
	}
	machines, err := hosts.Make(t.Context(), machine.Request{System: "x", Count: 1})
	text, readErr := os.ReadFile(out)
	if err != nil || readErr != nil || len(machines) != 1 || string(text) != "carried\n" {
		t.Errorf("%v, %v, %q", err, readErr, text)
	}
	if _, err := hosts.Make(t.Context(), machine.Request{System: "y", Count: 1}); err == nil || !strings.Contains(err.Error(), "prepare one: on one: exit status 3: no room") {
		t.Errorf("a script that fails: %v", err)
	}
	if _, err := os.Stat("/var/tmp/sealift-testgrid-prepare"); !os.IsNotExist(err) {
		t.Errorf("the folder is left on the machine: %v", err)
	}
	if _, err := os.Stat(out + ".removed"); err != nil {
		t.Errorf("a machine that could not be prepared is left: %v", err)
	}
}

func TestHostsMistakesHavePositions(t *testing.T) {
	_, err := load(t, `lab: {cpu: none, memory: 5}
systems:
  a/b: {lab: debian-12}
  b: {lab: plan-9}
  c: {lab: debian-12, command: x}
  d: {command: {}}
  e: {ssh: {machines: [{name: n, address: a, key: /does/not/exist, hostKey: x, prot: 22}]}}
  f: {ssh: {machines: [], bare: {script: "true"}}}
  g: {kubernetes: {namespace: a/b}}
  h: {prepare: {}, lab: debian-12}
  i: {prepare: {folder: none, script: x}, lab: debian-12}
  j: {lab: debian-12, machine: container}
  k: {lab: debian-13, machine: vm}
  l: {command: x, machine: vm}
`)
	for _, want := range []string{":1:12: ", ":1:26: ", ":3:3: ", ":4:12: ", ":5:6: ", ":6:16: ", ":7:12: ", ":7:51: ", ":7:80: ", ":8:12: ", ":9:19: ", ":10:16: ", ":11:25: ", ":12:32: ", ":13:12: ", ":14:28: "} {
		if err == nil || !strings.Contains(err.Error(), "hosts.yaml"+want) {
			t.Errorf("nothing at %s in\n%v", want, err)
		}
	}
}

// FuzzParse checks that no text panics. Keys are files, so it has no names of devices.
func FuzzParse(f *testing.F) {
	f.Add("lab: {cpu: 4, memory: 8Gi}\nsystems: {a: {lab: debian-12}, b: {command: [x, y]}}\n")
	f.Add("systems: {a: {ssh: {bare: {script: x}, ownsClock: true, machines: [{address: a, key: k, hostKey: ssh-ed25519 AAAA}]}}}\n")
	f.Add("systems: {a: {lab: debian-12, machine: vm}}\n")
	f.Add("systems: {a: {kubernetes: {image: i, namespace: n, kubeconfig: k}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := machine.Parse(t.TempDir()+"/hosts.yaml", []byte(text), machine.Options{})
		if (err == nil) == (hosts == nil) {
			t.Fatalf("%v, %v", hosts, err)
		}
		if err != nil {
			return
		}
		for _, system := range hosts.Systems() {
			if hosts.Kind(system) == nil {
				t.Errorf("no kind for %q", system)
			}
		}
	})
}
