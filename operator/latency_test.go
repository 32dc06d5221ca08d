package operator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/webhook"
)

// reviewCount is how many reviews are measured. The medians are compared.
const reviewCount = 100

// BenchmarkAdmission compares the duration of a review with that of the hook alone.
func BenchmarkAdmission(b *testing.B) {
	cluster, err := kube.Connect(controlplane.ForTest(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	free, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	path, answer := filepath.Join(dir, "hook.sh"), filepath.Join(b.TempDir(), "answer")
	text := "#!/bin/bash\n[[ $1 != --config ]] || { echo '{configVersion: v1, kubernetesValidating: [{name: a.b.c, failurePolicy: Ignore, rules: [{apiGroups: [x.y], apiVersions: [v1], resources: [zs], operations: [CREATE]}]}]}'; exit; }\n" +
		"read -r -d '' context < \"$BINDING_CONTEXT_PATH\"\necho '{\"allowed\": true}' > \"$ADMISSION_RESPONSE_PATH\"\n"
	if err := fixture.WriteProgram(path, text); err != nil {
		b.Fatal(err)
	}
	e, err := engine.Load(b.Context(), engine.Options{HooksDir: dir, Cluster: cluster, Runner: hook.Runner{TempDir: b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	server := webhook.New(ctx, webhook.Options{
		Cluster: cluster, Log: slog.New(slog.DiscardHandler), Namespace: "default", ConfigurationName: "bench", Admission: webhook.Endpoint{Listen: address, Service: "bench"},
	})
	defer server.Wait()
	defer cancel()
	if err := server.Set(e.Webhooks()); err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	review := fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"data":{"text":%q}}}}`, bytes.Repeat([]byte("x"), 2<<10))
	ask := func() time.Duration {
		begin := time.Now()
		resp, err := client.Post("https://"+address+"/hooks/a.b.c", "application/json", bytes.NewReader(review))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(body, []byte(`"allowed":true`)) {
			b.Fatalf("%s, %v", body, err)
		}
		return time.Since(begin)
	}
	alone := func() time.Duration {
		begin := time.Now()
		cmd := exec.CommandContext(b.Context(), path)
		context := filepath.Join(filepath.Dir(answer), "context")
		if err := os.WriteFile(context, review, 0o600); err != nil {
			b.Fatal(err)
		}
		cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+context, "ADMISSION_RESPONSE_PATH="+answer)
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	ask() // opens the connection
	for b.Loop() {
		var asked, ran []time.Duration
		for range reviewCount {
			asked, ran = append(asked, ask()), append(ran, alone())
		}
		slices.Sort(asked)
		slices.Sort(ran)
		half := reviewCount / 2
		b.ReportMetric(float64(asked[half].Microseconds())/1000, "answer-ms")
		b.ReportMetric(float64(ran[half].Microseconds())/1000, "hook-ms")
		b.ReportMetric(float64((asked[half]-ran[half]).Microseconds())/1000, "more-ms")
	}
}
