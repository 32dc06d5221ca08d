package node

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestTerminalPromptsForAddress uses a host with addresses in three networks, and no route that decides.
func TestTerminalPromptsForAddress(t *testing.T) {
	candidate := func(address, link string) network.Candidate {
		return network.Candidate{Address: netip.MustParseAddr(address), Link: link}
	}
	choice := network.Choice{Candidate: candidate("10.0.0.5", "eth0"), Why: "no default route decides, and it is the first one",
		Others: []network.Candidate{candidate("10.1.0.5", "eth1"), candidate("fd00::5", "eth2")}}
	for answer, want := range map[string]string{
		"\n":            "10.0.0.5 (eth0)",
		"1\n":           "10.0.0.5 (eth0)",
		" 2 \n":         "10.1.0.5 (eth1)", //nolint:gocritic // as typed
		"3\n":           "fd00::5 (eth2)",
		"10.1.0.5\n":    "10.1.0.5 (eth1)",
		"2x\x7f\n":      "10.1.0.5 (eth1)", // the terminal deletes the x
		"0\n":           `"0" is not one of the addresses; nothing was changed`,
		"4\n":           `"4" is not one of the addresses; nothing was changed`,
		"10.9.9.9\n":    `"10.9.9.9" is not one of the addresses; nothing was changed`,
		"eth1\n":        `"eth1" is not one of the addresses; nothing was changed`,
		"yes\nplease\n": `"yes" is not one of the addresses; nothing was changed`,
	} {
		t.Run(strings.TrimSpace(answer), func(t *testing.T) {
			var said bytes.Buffer
			a := commands{App: &app.App{In: fixture.Terminal(t, answer), Err: &said}}
			ask := a.addressQuestion(false)
			if ask == nil {
				t.Fatal("nobody is asked at a terminal")
			}
			got, err := ask(choice)
			if err == nil && got.String() != want || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, %v, want %s", got, err, want)
			}
			for _, line := range []string{"  1  10.0.0.5 (eth0)\n", "  2  10.1.0.5 (eth1)\n", "  3  fd00::5 (eth2)\n", "(1: no default route decides, and it is the first one)", "Which one? (1 to 3, Enter for 1) "} {
				if !strings.Contains(said.String(), line) {
					t.Errorf("lacks %q:\n%s", line, said.String())
				}
			}
		})
	}
}

// TestAddressPromptNeedsTerminal: --yes and --plan choose on their own, and a script cannot be asked.
func TestAddressPromptNeedsTerminal(t *testing.T) {
	pipe, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if a := (commands{App: &app.App{In: fixture.Terminal(t, "")}}); a.addressQuestion(true) != nil {
		t.Error("asks although it was told not to")
	}
	for name, in := range map[string]io.Reader{"a pipe": pipe, "no file": strings.NewReader("2\n")} {
		if a := (commands{App: &app.App{In: in}}); a.addressQuestion(false) != nil {
			t.Errorf("asks on %s", name)
		}
	}
}
