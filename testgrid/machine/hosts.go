package machine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/capacity"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// maxMistakes is the most mistakes that are reported.
const maxMistakes = 100

// Hosts says which kind of machine serves which system: the content of HOSTS.yaml.
type Hosts struct {
	kinds    map[string]Provider
	prepared map[string]preparation
}

// Systems lists the IDs of all systems.
func (h *Hosts) Systems() []string { return slices.Sorted(maps.Keys(h.kinds)) }

// Kind returns the kind that serves a system, or nil.
func (h *Hosts) Kind(system string) Provider { return h.kinds[system] }

// CheckPods refuses systems whose machines pods of a cluster cannot use.
func (h *Hosts) CheckPods(systems []string) error {
	for _, system := range systems {
		if h.prepared[system].folder != "" {
			return fmt.Errorf("the folder that prepares machines of %s is on this machine, not in the pods; put its content into the machines' images, or run the tests without --on", system)
		}
		switch h.kinds[system].(type) {
		case lab:
			return fmt.Errorf("the machines of %s are containers of the lab, which a pod without rights cannot boot; use the kind command", system)
		case podKind:
			return fmt.Errorf("the machines of %s are pods themselves, which a pod without rights cannot make; run their tests without --on", system)
		case *sshPool:
			return fmt.Errorf("the machines of %s are reached by ssh and serve one run at a time, but each pod is its own run; use the kind command", system)
		}
	}
	return nil
}

// Options are inputs of machines from the program that uses them. The zero value suffices for lab, ssh and command.
type Options struct {
	Progress func(line string) // gets one line per event; nil drops them
	// Connect returns how to reach the cluster of a kubeconfig file, or the user's own cluster if the file is "".
	Connect func(kubeconfig string) (*rest.Config, error)
}

// Load reads HOSTS.yaml. If it is invalid, the error is a diag.Errors with its mistakes.
func Load(path string, o Options) (*Hosts, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read hosts: %w", err)
	}
	return Parse(path, data, o)
}

// Parse is Load for a file that has been read. Relative paths belong to the folder of name.
func Parse(name string, data []byte, o Options) (*Hosts, error) {
	r := &reader{Reader: strictyaml.Reader{Name: name, List: diag.List{Most: maxMistakes}}, dir: filepath.Dir(name)}
	hosts := &Hosts{kinds: map[string]Provider{}, prepared: map[string]preparation{}}
	if root := r.Mapping(data); root != nil {
		r.hosts(hosts, root, o)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return hosts, nil
}

type reader struct {
	strictyaml.Reader
	dir string // of HOSTS.yaml, which relative paths belong to
}

var (
	systemID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	sizePattern = regexp.MustCompile(`^([0-9]{1,9})(Mi|Gi|Ti)$`)
)

func (r *reader) hosts(hosts *Hosts, root *yaml.Node, o Options) {
	fields := r.Fields(root, "HOSTS.yaml", "lab", "systems")
	shared := newBudget(r.labLimits(fields["lab"]))
	systems := fields["systems"]
	if systems == nil || !r.IsMapping(systems, "systems") || len(systems.Content) == 0 {
		r.Errorf(r.Pos(root), "write systems: {debian-12: {lab: debian-12}}", "there are no systems")
		return
	}
	for at := 0; at+1 < len(systems.Content); at += 2 {
		key, n := systems.Content[at], systems.Content[at+1]
		if !systemID.MatchString(key.Value) {
			r.Errorf(r.Pos(key), "such as ubuntu-2404", "bad ID %q of a system", key.Value)
		}
		if !r.IsMapping(n, "the system "+key.Value) {
			continue
		}
		kinds := r.Fields(n, "a system", "lab", "machine", "ssh", "command", "kubernetes", "prepare")
		count := len(n.Content) / 2
		if prepare := kinds["prepare"]; prepare != nil {
			hosts.prepared[key.Value] = r.preparation(prepare)
			count--
		}
		if kinds["machine"] != nil {
			count--
		}
		if count != 1 {
			r.Errorf(r.Pos(n), "one of lab, ssh, command and kubernetes", "a system has %d kinds of machines, not one", count)
			continue
		}
		if n := kinds["machine"]; n != nil && kinds["lab"] == nil {
			r.Errorf(r.Pos(n), "", "machine is for hosts of the lab")
		}
		switch {
		case kinds["lab"] != nil:
			hosts.kinds[key.Value] = r.lab(kinds["lab"], kinds["machine"], shared, o.Progress)
		case kinds["ssh"] != nil:
			hosts.kinds[key.Value] = r.ssh(kinds["ssh"])
		case kinds["command"] != nil:
			hosts.kinds[key.Value] = commandKind{r.program(kinds["command"], "command")}
		case kinds["kubernetes"] != nil:
			hosts.kinds[key.Value] = r.pods(kinds["kubernetes"], o.Connect)
		}
	}
}

// lab reads which hosts of the lab are machines: containers, or virtual machines if machine is vm.
func (r *reader) lab(n, machine *yaml.Node, shared *budget, progress func(string)) lab {
	k := lab{system: r.Text(n, "lab"), budget: shared, progress: progress}
	systems := host.Systems()
	if machine != nil {
		if r.Text(machine, "machine") != "vm" {
			r.Errorf(r.Pos(machine), "use vm, or leave it out for containers", "machine cannot be %q", machine.Value)
		}
		k.machine, systems = true, host.MachineSystems()
	}
	if !slices.Contains(systems, k.system) {
		r.Errorf(r.Pos(n), "use "+strings.Join(systems, " or "), "the lab has no system %q", k.system)
	}
	return k
}

// labLimits returns the processors and the bytes of memory for hosts of the lab: by default, all of this machine.
func (r *reader) labLimits(n *yaml.Node) (cpu int, memory int64) {
	all, _ := capacity.Memory(os.DirFS("/")) // without it a file that names no memory gets none
	cpu, memory = runtime.NumCPU(), int64(all)
	if n == nil || !r.IsMapping(n, "lab") {
		return cpu, memory
	}
	fields := r.Fields(n, "lab", "cpu", "memory")
	if n := fields["cpu"]; n != nil {
		cpu = r.number(n, "cpu", 1, 4096)
	}
	if n := fields["memory"]; n != nil {
		m := sizePattern.FindStringSubmatch(r.Text(n, "memory"))
		if m == nil {
			r.Errorf(r.Pos(n), "such as 32Gi", "memory must be a size, not %q", n.Value)
			return cpu, memory
		}
		size, _ := strconv.ParseInt(m[1], 10, 64)
		memory = size << map[string]int{"Mi": 20, "Gi": 30, "Ti": 40}[m[2]]
	}
	return cpu, memory
}

func (r *reader) number(n *yaml.Node, what string, least, most int) int {
	i, err := strconv.Atoi(r.Text(n, what))
	if n.Kind == yaml.ScalarNode && (err != nil || i < least || i > most) {
		r.Errorf(r.Pos(n), "", "%s must be a number from %d to %d, not %q", what, least, most, n.Value)
	}
	return i
}

// pods reads which pods are machines.
func (r *reader) pods(n *yaml.Node, connect func(string) (*rest.Config, error)) Provider {
	k := podKind{namespace: "default", connect: connect}
	if !r.IsMapping(n, "kubernetes") {
		return k
	}
	fields := r.Fields(n, "kubernetes", "image", "namespace", "kubeconfig")
	for key, to := range map[string]*string{"image": &k.image, "namespace": &k.namespace, "kubeconfig": &k.kubeconfig} {
		if field := fields[key]; field != nil {
			*to = r.Text(field, key)
		}
	}
	if k.kubeconfig != "" {
		k.kubeconfig = r.path(k.kubeconfig)
	}
	if k.image == "" {
		r.Errorf(r.Pos(n), "'sealift testgrid lab image' makes one", "kubernetes has no image")
	}
	if !systemID.MatchString(k.namespace) {
		r.Errorf(r.Pos(n), "such as tests", "bad namespace %q", k.namespace)
	}
	return k
}

// program reads a program and its arguments, as one word or as a list.
func (r *reader) program(n *yaml.Node, what string) program {
	words := n.Content
	if n.Kind == yaml.ScalarNode {
		words = []*yaml.Node{n}
	}
	var p program
	for _, word := range words {
		p = append(p, r.Text(word, what))
	}
	if n.Kind == yaml.MappingNode || len(p) == 0 || p[0] == "" {
		r.Errorf(r.Pos(n), "write "+what+": [./program, argument]", "%s names no program", what)
		return nil
	}
	if strings.Contains(p[0], "/") {
		p[0] = r.path(p[0])
	}
	return p
}

// path returns a path that does not depend on the working directory.
func (r *reader) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, name)
	}
	if absolute, err := filepath.Abs(name); err == nil {
		return absolute
	}
	return name
}

func (r *reader) ssh(n *yaml.Node) Provider {
	if !r.IsMapping(n, "ssh") {
		return nil
	}
	fields := r.Fields(n, "ssh", "machines", "bare", "powerCycle", "egress", "ownsClock")
	var hosts []sshHost
	names := map[string]bool{}
	machines := fields["machines"]
	if machines == nil || machines.Kind != yaml.SequenceNode || len(machines.Content) == 0 {
		r.Errorf(r.Pos(n), "write machines: [{address: 192.0.2.10, key: id_ed25519, hostKey: ssh-ed25519 …}]", "ssh has no list of machines")
		return nil
	}
	for _, m := range machines.Content {
		if !r.IsMapping(m, "a machine") {
			continue
		}
		h := r.sshHost(m)
		if names[h.Name] {
			r.Errorf(r.Pos(m), "give each machine a name", "there are two machines %q", h.Name)
		}
		names[h.Name] = true
		hosts = append(hosts, h)
	}
	pool := newSSHPool(hosts)
	switch bare := fields["bare"]; {
	case bare == nil:
		r.Errorf(r.Pos(n), "write bare: {script: …} or bare: {program: […]}", "ssh does not say how a machine becomes bare")
	case r.IsMapping(bare, "bare"):
		of := r.Fields(bare, "bare", "script", "program")
		if len(of) != 1 {
			r.Errorf(r.Pos(bare), "a script runs on the machine, a program here", "bare needs either script or program")
		}
		if script := of["script"]; script != nil {
			pool.bareScript = r.Text(script, "bare.script")
		}
		if p := of["program"]; p != nil {
			pool.bareProgram = r.program(p, "bare.program")
		}
	}
	if p := fields["powerCycle"]; p != nil {
		pool.powerCycle = r.program(p, "powerCycle")
	}
	if p := fields["egress"]; p != nil {
		pool.egress = r.program(p, "egress")
	}
	if b := fields["ownsClock"]; b != nil {
		owns, ok := strictyaml.Value(b).(bool)
		if !ok {
			r.Errorf(r.Pos(b), "write true or false", "ownsClock must be true or false")
		}
		pool.ownsClock = owns
	}
	return pool
}

func (r *reader) sshHost(n *yaml.Node) sshHost {
	h := sshHost{Port: 22, User: "root"}
	fields := r.Fields(n, "a machine", "name", "address", "port", "user", "key", "hostKey")
	for key, to := range map[string]*string{"name": &h.Name, "address": &h.Address, "user": &h.User, "key": &h.Key, "hostKey": &h.HostKey} {
		if field := fields[key]; field != nil {
			*to = r.Text(field, key)
		}
	}
	if port := fields["port"]; port != nil {
		h.Port = r.number(port, "port", 1, 65535)
	}
	if h.Name == "" {
		h.Name = h.Address
	}
	for _, missing := range []struct{ key, value string }{{"address", h.Address}, {"key", h.Key}, {"hostKey", h.HostKey}, {"user", h.User}} {
		if missing.value == "" {
			r.Errorf(r.Pos(n), "", "a machine has no %s", missing.key)
		}
	}
	if h.Name != "" && !machineName.MatchString(h.Name) && !strings.Contains(h.Name, ":") {
		r.Errorf(r.Pos(n), "such as node-1", "bad name %q of a machine", h.Name)
	}
	h.Key = r.path(h.Key)
	if h.HostKey == "" || fields["key"] == nil {
		return h
	}
	if _, err := h.config(); err != nil {
		var missing *os.PathError
		at := fields["hostKey"]
		if errors.As(err, &missing) || strings.Contains(err.Error(), h.Key) {
			at = fields["key"]
		}
		r.Errorf(r.Pos(at), "", "%v", err)
	}
	return h
}
