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

// The texts are those of the distributions, as far as a target depends on them.
func TestTargetOfRealReleaseFiles(t *testing.T) {
	for text, want := range map[string]string{
		"NAME=\"Rocky Linux\"\nVERSION=\"9.6 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\nPLATFORM_ID=\"platform:el9\"\n": "rhel-9",
		"NAME=\"Rocky Linux\"\nVERSION=\"10.0 (Red Quartz)\"\nID=\"rocky\"\nVERSION_ID=\"10.0\"\nPLATFORM_ID=\"platform:el10\"\n":                             "rhel-10",
		"NAME=\"AlmaLinux\"\nVERSION=\"8.10 (Cerulean Leopard)\"\nID=\"almalinux\"\nVERSION_ID=\"8.10\"\n":                                                    "rhel-8",
		"NAME=\"Red Hat Enterprise Linux\"\nVERSION=\"9.4 (Plow)\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n":                                    "rhel-9",
		"NAME=\"CentOS Stream\"\nVERSION=\"9\"\nID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"9\"\n":                                                   "rhel-9",
		"NAME=\"Oracle Linux Server\"\nVERSION=\"8.10\"\nID=\"ol\"\nID_LIKE=\"fedora\"\nVARIANT=\"Server\"\nVERSION_ID=\"8.10\"\n":                            "rhel-8",
		"NAME=\"Amazon Linux\"\nVERSION=\"2023\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n":                                                     "amazon-2023",
		"PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nVERSION=\"24.04.1 LTS (Noble Numbat)\"\nID=ubuntu\nID_LIKE=debian\n":      "ubuntu-24.04",
		"PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID='22.04'\nID=ubuntu\n":                                                                "ubuntu-22.04",
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\n# ID=none\nID=debian\n":                                                           "debian-12",
	} {
		var f Facts
		f.Distribution, f.Version = parseOSRelease([]byte(text))
		if got := f.Target(); got != want {
			t.Errorf("got %s, want %s for\n%s", got, want, text)
		}
	}
}

func TestAddressesOfThisHostAreKnown(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "203.0.113.77": false, "": false, "eth0": false, "$(id)": false} {
		if got := HasAddress(address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}

func TestAddressOfAHostWithSeveral(t *testing.T) {
	ownNetwork(t)
	for _, command := range []string{
		"link set lo up",
		"link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0", "link set docker0 up",
		"link add nat0 type bridge", "address add 10.0.2.15/24 dev nat0", "link set nat0 up",
		"link add rack0 type bridge", "address add 192.0.2.7/32 dev rack0", "link set rack0 up", "route add 198.51.100.0/24 dev rack0",
	} {
		must(t, "", "ip", strings.Fields(command)...)
	}
	address := func() string {
		t.Helper()
		f, err := Discover()
		if err != nil {
			t.Fatal(err)
		}
		for _, used := range []string{"10.0.2.0/24", "198.51.100.0/24", "192.0.2.7/32"} {
			if !slices.Contains(f.Used, netip.MustParsePrefix(used)) {
				t.Errorf("%s counts as free: %v", used, f.Used)
			}
		}
		return f.Address.String()
	}
	if got := address(); got != "10.0.2.15" {
		t.Errorf("without a default route it is %s", got)
	}
	must(t, "", "ip", strings.Fields("route add default dev nat0 metric 200")...)
	must(t, "", "ip", strings.Fields("route add default dev rack0 metric 100")...)
	if got := address(); got != "192.0.2.7" {
		t.Errorf("with default routes it is %s", got)
	}
	for other, want := range map[string]string{
		"198.51.100.3:6443": "192.0.2.7", "10.0.2.2:6443": "10.0.2.15", "127.0.0.1:6443": "invalid IP", "172.17.0.9:6443": "invalid IP", "no port": "invalid IP",
	} {
		if got := AddressTowards(other).String(); got != want {
			t.Errorf("towards %s it is %s, want %s", other, got, want)
		}
	}
}

func FuzzRoutesAndPackages(f *testing.F) {
	f.Add("eth0\t0000600A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0")
	f.Add("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask")
	f.Add("ii \tiptables\t1.8.9-2")
	f.Fuzz(func(t *testing.T, line string) {
		if r, ok, err := parseRoute(strings.Fields(line)); ok && err == nil && (!r.destination.IsValid() || r.String() == "") {
			t.Errorf("%q is %+v", line, r)
		}
		found := map[string]string{}
		parseDpkg(line, found)
		parseRPM(line, found)
		if len(found) > 2 {
			t.Errorf("%q is %v", line, found)
		}
	})
}

func TestRoutesReadAsIpTakesThem(t *testing.T) {
	for line, want := range map[string]string{
		"eth0 0000600A 00000000 0001 0 0 0 00FCFFFF": "10.96.0.0/22 dev eth0",
		"eth0 00000000 0100A8C0 0003 0 0 0 00000000": "0.0.0.0/0 via 192.168.0.1 dev eth0",
	} {
		if r, ok, err := parseRoute(strings.Fields(line)); err != nil || !ok || r.String() != want {
			t.Errorf("%s: got %s, %t, %v; want %s", line, r, ok, err, want)
		}
	}
}
