package redact_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/host/redact"
)

// BenchmarkCopy has a usual log and lines made to take long.
func BenchmarkCopy(b *testing.B) {
	lines := map[string]string{
		"log":     "Nov 20 12:00:00 node kubelet[1]: E1120 12:00:00.123456 failed to pull image: dial tcp 10.0.0.1:5000: connection refused\n",
		"names":   strings.Repeat("password", 4000) + "\n",
		"words":   strings.Repeat("a-token:", 4000) + "\n",
		"quotes":  strings.Repeat(`"name":"x_password","value":`, 1000) + "\n",
		"escapes": strings.Repeat(`password\\\\\\`, 2000) + "\n",
		"users":   strings.Repeat("://a:", 6000) + "\n",
		"long":    strings.Repeat("secret key token password ", 40000) + "\n",
	}
	lines["near the bounds"] = "password=" + strings.Repeat("aaaa bbbb:", 1600) + "\n"
	for name, line := range lines {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(line, max(1, 1<<20/len(line)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := redact.New().Copy(io.Discard, strings.NewReader(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
