package host

import (
	"slices"
	"strings"
	"testing"
)

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

func TestTargetIsFamilyOfBuiltPackages(t *testing.T) {
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
