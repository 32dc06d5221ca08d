package host

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestFreeSubnetAvoidsRoutes(t *testing.T) {
	prefixes := func(list string) (out []netip.Prefix) {
		for s := range strings.FieldsSeq(list) {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	for name, row := range map[string]struct {
		size               int
		ranges, used, want string
	}{
		"nothing in use":              {20, "10.32.0.0/16", "", "10.32.0.0/20"},
		"first is taken":              {20, "10.32.0.0/16", "10.32.4.0/24", "10.32.16.0/20"},
		"a larger network covers all": {20, "10.32.0.0/16 10.0.0.0/8", "10.32.0.0/12", "10.0.0.0/20"},
		"as large as the range":       {16, "10.32.0.0/16", "", "10.32.0.0/16"},
		"end of the address space":    {24, "255.255.255.0/24", "", "255.255.255.0/24"},
		"no room":                     {20, "10.32.0.0/16", "10.0.0.0/8", ""},
		"larger than the range":       {8, "10.32.0.0/16", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FreeSubnet(row.size, prefixes(row.ranges), prefixes(row.used))
			if row.want == "" {
				if err == nil {
					t.Errorf("got %s", got)
				}
				return
			}
			if err != nil || got.String() != row.want {
				t.Errorf("got %s, %v; want %s", got, err, row.want)
			}
		})
	}
}

func TestOSRelease(t *testing.T) {
	for text, want := range map[string][]string{
		"ID=debian\nVERSION_ID=\"12\"\n":        {"debian", "12"},
		"# ID=no\nID='rocky'\nVERSION_ID=9.4":   {"rocky", "9.4"},
		"PRETTY_NAME=\"Arch Linux\"\nID=arch\n": {"arch", ""},
		"garbage\n=\n":                          {"", ""},
	} {
		id, version := parseOSRelease([]byte(text))
		if got := []string{id, version}; !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestDiscoverThisHost(t *testing.T) {
	f, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	if f.Distribution == "" || f.Hostname != strings.ToLower(f.Hostname) || f.CgroupVersion < 1 || !strings.HasPrefix(f.Platform, "linux/") {
		t.Errorf("got %+v", f)
	}
}

func TestTargetIsTheFamilyThatPackagesAreBuiltFor(t *testing.T) {
	for name, row := range map[string]struct{ id, version, want string }{
		"Debian has one target for each release":        {"debian", "12", "debian-12"},
		"so has Ubuntu":                                 {"ubuntu", "24.04", "ubuntu-24.04"},
		"minor versions of Red Hat share a target":      {"rhel", "9.6", "rhel-9"},
		"and so do those compatible with it":            {"rocky", "10.0", "rhel-10"},
		"AlmaLinux":                                     {"almalinux", "8.10", "rhel-8"},
		"CentOS Stream has no minor version":            {"centos", "9", "rhel-9"},
		"Oracle Linux":                                  {"ol", "8.9", "rhel-8"},
		"Amazon Linux goes by its own name in packages": {"amzn", "2023", "amazon-2023"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Facts{Distribution: row.id, Version: row.version}).Target(); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestAddressesOfThisHostAreKnown(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "203.0.113.77": false, "": false, "eth0": false, "$(id)": false} {
		if got := HasAddress(address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}
