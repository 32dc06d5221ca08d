package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/host/speed"
)

// metricsTime bounds one look at the metrics of an API server.
const metricsTime = 20 * time.Second

// ReportedFile returns the sha256, in hex, of a configuration file as the API server at config uses it: of "encryption" or
// "authentication". It is "" if the server uses none. The server tells it by its metrics.
func ReportedFile(ctx context.Context, config *rest.Config, kind string) (digest string, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(metricsTime))
	defer cancel()
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("ask %s which %s configuration it uses: %w", config.Host, kind, err)
	}
	used := regexp.MustCompile(`^apiserver_` + regexp.QuoteMeta(kind) + `_config_controller_last_config_info\{.*\bhash="sha256:([0-9a-f]{64})".*\} 1$`)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if found := used.FindSubmatch(lines.Bytes()); found != nil {
			digest = string(found[1])
		}
	}
	return digest, lines.Err()
}
