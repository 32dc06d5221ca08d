package command

import "slices"

// Fleet says how the console reads the hub of a fleet. Only root on the node sets it. The zero value is no hub.
type Fleet struct {
	Program    string `json:"program,omitempty"`    // file of sealift-controller; the sealift of nodes has no command for fleets
	Kubeconfig string `json:"kubeconfig,omitempty"` // of the hub
	Namespace  string `json:"namespace,omitempty"`  // of the hub's own objects, if it is not the default one
}

// Words returns the words of a command of the fleet with those that name the hub.
func (f Fleet) Words(words ...string) []string {
	all := append([]string{"fleet"}, words...)
	for _, flag := range []struct{ name, value string }{{"--kubeconfig", f.Kubeconfig}, {"--namespace", f.Namespace}} {
		if flag.value != "" {
			all = append(all, flag.name, flag.value)
		}
	}
	return all
}

// Line returns the command line with which root runs a command of the fleet.
func (f Fleet) Line(words ...string) string { return f.shell(f.Words(words...)...) }

func (f Fleet) shell(words ...string) string {
	return Shell(slices.Concat([]string{f.Program}, words)...)
}

// ForFleet returns a reader that runs the fleet's program. The readers share their slots.
func (r *Reader) ForFleet(f Fleet) *Reader {
	return &Reader{program: f.Program, line: f.shell, slots: r.slots, now: r.now, runs: make(map[string]*run)}
}
