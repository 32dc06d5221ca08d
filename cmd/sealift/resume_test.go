package main

import "testing"

func TestResumeCommandCanBeGivenToAShell(t *testing.T) {
	for name, row := range map[string]struct {
		args   []string
		script string
		want   string
	}{
		"plain words":          {[]string{"sealift", "install", "--bundle", "/media/usb/a.tar.gz"}, "", "sudo sealift install --bundle /media/usb/a.tar.gz"},
		"characters of shells": {[]string{"sealift", "install", "--bundle", "my $(bundle).tar.gz"}, "", "sudo sealift install --bundle 'my $(bundle).tar.gz'"},
		"started by a script":  {[]string{"/var/lib/x/sealift", "install"}, "cat install.sh | sudo bash -s airgap", "cat install.sh | sudo bash -s airgap"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resumeCommand(row.args, row.script); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
