package hostpkg

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// The scripts query dnf through its Python interface: the command would need root, and prints no hashes.
var (
	//go:embed solve.py
	script4 string
	//go:embed solve5.py
	script5 string
)

// dnfInterface is a Python that has the modules of dnf, and the script for their version.
type dnfInterface struct{ python, script string }

// findDNF finds the Python interface of dnf. given is the program dnf, empty to look for it. Where dnf is version 5, version 4
// may be installed under another name; it is tried first, since that of version 5 is a separate package.
func findDNF(given string) (dnfInterface, error) {
	dnf, err := find("dnf", given, "dnf")
	if err != nil {
		return dnfInterface{}, err
	}
	programs := []string{dnf}
	for _, name := range []string{"dnf-3", "dnf4"} {
		if other, err := exec.LookPath(name); err == nil && given == "" {
			programs = append(programs, other)
		}
	}
	for _, program := range programs {
		python, err := interpreter(program)
		if err != nil {
			return dnfInterface{}, err
		}
		if python != "" {
			return dnfInterface{python, script4}, nil
		}
	}
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(python, "-c", "import libdnf5").Run() //nolint:noctx // it only loads a module
	}
	if err != nil {
		return dnfInterface{}, fmt.Errorf("%s is not version 4 of dnf, and python3 has no module libdnf5 for version 5 (%w); "+
			"install the package python3-libdnf5, or leave the target out with --target", dnf, err)
	}
	return dnfInterface{python, script5}, nil
}

// interpreter returns the Python that runs version 4 of dnf, and so has its modules; "" for another program.
func interpreter(dnf string) (string, error) {
	f, err := os.Open(dnf)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if err != nil || !strings.HasPrefix(line, "#!") || len(words) == 0 || !strings.Contains(words[0], "python") {
		return "", nil // it is not a script
	}
	return words[0], nil
}
