package readdress

import (
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
)

// Change is a change of a node's address.
type Change struct {
	From netip.Addr `json:"from"`
	To   netip.Addr `json:"to"`
	// Link is the interface that has the new address.
	Link string `json:"interface"`
}

// routeUnit is the unit of systemd for the route to the Service network on a host without a default route. It names the interface.
const routeUnit = "sealift-service-route.service"

var routeLink = regexp.MustCompile(`( dev )\S+`)

// rewrite writes the new address into a file of the node, and counts the changed places. The rest of the file is not changed.
func (c Change) rewrite(name, text string) (out string, places int) {
	out, places = replace(text, c.From, c.To)
	if filepath.Base(name) == routeUnit && c.Link != "" {
		moved := routeLink.ReplaceAllString(out, "${1}"+c.Link)
		if moved != out {
			places++
		}
		out = moved
	}
	return out, places
}

// replace replaces an address wherever a text has it as a whole, and counts the places. A network that begins with the address
// stays, and so does a name that contains it.
func replace(text string, from, to netip.Addr) (out string, places int) {
	word := from.String()
	var b strings.Builder
	for rest := text; ; {
		at := strings.Index(rest, word)
		if at < 0 {
			b.WriteString(rest)
			return b.String(), places
		}
		end := at + len(word)
		before := text[:len(text)-len(rest)+at]
		if whole(before, rest[end:], from) {
			b.WriteString(rest[:at])
			b.WriteString(to.String())
			places++
		} else {
			b.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
}

// whole reports whether the text around an address is not part of it.
func whole(before, after string, address netip.Addr) bool {
	if before != "" {
		if c := before[len(before)-1]; wordByte(c) || c == '.' || address.Is6() && c == ':' {
			return false
		}
	}
	if after == "" {
		return true
	}
	next := byte(0)
	if len(after) > 1 {
		next = after[1]
	}
	switch c := after[0]; c {
	case '.':
		return !wordByte(next) // the end of a sentence
	case '/':
		return next < '0' || next > '9'
	case ':':
		return address.Is4()
	default:
		return !wordByte(c)
	}
}

func wordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_'
}
