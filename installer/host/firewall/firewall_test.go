package firewall

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestUFWIsFoundInAnyLanguage: Python's gettext looks at LANGUAGE, LC_ALL, LC_MESSAGES and LANG in this order, and takes the first that is
// not empty.
func TestUFWIsFoundInAnyLanguage(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"systemctl": "echo inactive\n",
		"ufw":       `case "${LANGUAGE:-${LC_ALL:-${LC_MESSAGES:-$LANG}}}" in de*) echo "Status: Aktiv" ;; *) echo "Status: active" ;; esac` + "\n",
	} {
		if err := fixture.WriteProgram(dir+"/"+name, "#!/bin/sh\n"+script); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for _, variable := range []string{"LANG", "LC_MESSAGES", "LC_ALL", "LANGUAGE"} {
		t.Setenv(variable, "de_DE.UTF-8")
		if active := Active(t.Context()); !slices.Equal(active, []Firewall{UFW}) {
			t.Errorf("with %s: %v", variable, active)
		}
	}
}

func TestFirewallRulesPersistAndAreMinimal(t *testing.T) {
	opening := Opening{Ports: []string{"2379:2380/tcp", "8472/udp"}, Networks: []string{"10.32.0.0/20"}}
	for wall, want := range map[Firewall]string{
		Firewalld: "firewall-cmd --permanent --add-port=2379-2380/tcp --zone=internal\nfirewall-cmd --permanent --add-port=8472/udp --zone=internal\n" +
			"firewall-cmd --permanent --zone=trusted --add-source=10.32.0.0/20\nfirewall-cmd --reload",
		UFW: "ufw allow 2379:2380/tcp comment sealift\nufw allow 8472/udp comment sealift\nufw allow from 10.32.0.0/20 comment sealift\n" +
			"ufw route allow from 10.32.0.0/20 comment sealift\nufw route allow to 10.32.0.0/20 comment sealift\nufw reload",
	} {
		var lines []string
		for _, c := range wall.commands(opening, "internal") {
			lines = append(lines, strings.Join(c, " "))
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", wall, got, want)
		}
	}
}
