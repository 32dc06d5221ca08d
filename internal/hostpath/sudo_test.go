package hostpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrintedCommandsIncludePathForSudo has the settings of RHEL, Debian and Ubuntu, and of sites.
func TestPrintedCommandsIncludePathForSudo(t *testing.T) {
	const rhel = "Defaults    env_reset\nDefaults    secure_path = /sbin:/bin:/usr/sbin:/usr/bin\nroot ALL=(ALL) ALL\n"
	for name, row := range map[string]struct {
		files map[string]string
		found bool
	}{
		"no sudo":                    {nil, true},
		"RHEL":                       {map[string]string{"sudoers": rhel}, false},
		"Debian":                     {map[string]string{"sudoers": "Defaults\tsecure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"}, true},
		"without the setting":        {map[string]string{"sudoers": "Defaults env_reset\n# Defaults secure_path = /bin\n"}, true},
		"a site that extends RHEL's": {map[string]string{"sudoers": rhel, "sudoers.d/local": "Defaults secure_path = /sbin:/bin:/usr/sbin:/usr/bin:/usr/local/bin\n"}, true},
		"a site that restricts":      {map[string]string{"sudoers": "Defaults env_reset\n", "sudoers.d/10-path": "Defaults env_keep += \"X\", \\\n  secure_path=/usr/bin:/bin\n"}, false},
		"a file that sudo skips":     {map[string]string{"sudoers": rhel, "sudoers.d/local.rpmsave": "Defaults secure_path = /usr/local/bin\n"}, false},
		"one user":                   {map[string]string{"sudoers": "Defaults:admin secure_path=/bin\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			etc, program := t.TempDir(), filepath.Join("/usr/local/bin", "sealift")
			for file, text := range row.files {
				path := filepath.Join(etc, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := sudoLooksIn(etc, filepath.Dir(program)); got != row.found {
				t.Errorf("sudo looks in %s: %v, want %v", filepath.Dir(program), got, row.found)
			}
			if advice := sudoAdvice(etc, program); (advice == "") != row.found || !row.found && !strings.Contains(advice, "'sudo /usr/local/bin/kubectl'") {
				t.Errorf("the advice is %q", advice)
			}
		})
	}
}

// TestPathIsPrintedOnlyForExistingProgram: before an install, sealift is not in /usr/local/bin.
func TestPathIsPrintedOnlyForExistingProgram(t *testing.T) {
	etc, folder := t.TempDir(), t.TempDir()
	program := filepath.Join(folder, "sealift")
	if err := os.WriteFile(filepath.Join(etc, "sudoers"), []byte("Defaults secure_path=/usr/bin:/bin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sudo(etc, program, "reset"); got != "sudo sealift reset" {
		t.Errorf("without a program: %s", got)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := sudo(etc, program, "reset"); got != "sudo "+program+" reset" {
		t.Errorf("with the program: %s", got)
	}
}

// TestErrorsSayHowToTypeTheirCommands has the sudo of RHEL and that of Debian.
func TestErrorsSayHowToTypeTheirCommands(t *testing.T) {
	const text = "etcd lost its majority; see 'sealift restore --help'"
	etc, folder := t.TempDir(), t.TempDir()
	program := filepath.Join(folder, "sealift")
	for _, row := range []struct {
		name, path, text, want string
		program                bool
	}{
		{"before an install", "/usr/bin:/bin", text, "", false},
		{"sudo finds it", "/usr/bin:" + folder, text, "", true},
		{"no command is named", "/usr/bin:/bin", "sealift failed", "", true},
		{"sudo does not find it", "/usr/bin:/bin", text, "sudo of this host does not look in " + folder + ": type 'sudo " + program + " …' for 'sealift …'", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(etc, "sudoers"), []byte("Defaults secure_path="+row.path+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if row.program {
				if err := os.WriteFile(program, nil, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if got := nameAdvice(etc, program, row.text); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestRunStartedByPathIsRepeatedByPath: a path that worked in a shell also works with sudo.
func TestRunStartedByPathIsRepeatedByPath(t *testing.T) {
	args := []string{"/tmp/tool/bin/sealift", "preflight"}
	if got := strings.Join(Rerun(args), " "); got != "/tmp/tool/bin/sealift preflight" {
		t.Errorf("got %q", got)
	}
	if got := WithSudo(); got != "run the command with sudo" { // a test is started by its path
		t.Errorf("got %q", got)
	}
}
