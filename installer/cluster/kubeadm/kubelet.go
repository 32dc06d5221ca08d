package kubeadm

import "strings"

// KubeletArgsFiles are the files from which a kubelet's unit reads flags: kubeadm's, and those of the host's administrator.
func KubeletArgsFiles() []string {
	return []string{KubeletFlags, "/etc/default/kubelet", "/etc/sysconfig/kubelet"}
}

// KubeletArgs reads the flags of a kubelet from a file with assignments, such as KUBELET_EXTRA_ARGS="--v=2", as systemd reads it
// (systemd.exec(5), EnvironmentFile) and makes words of it (systemd.service(5), $FOO). All variables count, and text outside flags is left
// out.
func KubeletArgs(text []byte) (all Args) {
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		line = strings.TrimSpace(line)
		_, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		all = append(all, Args(split(unquote(value))).Only(func(string) bool { return true })...)
	}
	return all
}

// unquote removes quotes around a whole value.
func unquote(value string) string {
	value = strings.TrimSpace(value)
	if end := len(value) - 1; end > 0 && (value[0] == '"' || value[0] == '\'') && value[end] == value[0] {
		return value[1:end]
	}
	return value
}

// split makes words of a value. Quotes keep spaces together.
func split(value string) (words []string) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, c := range value {
		switch {
		case quote == 0 && strings.ContainsRune(" \t\r\n", c):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
			continue
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		default:
			word.WriteRune(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
