package balancer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// refresh is how often the cluster is asked for its API servers, and askTime how long it may take.
const (
	refresh = 10 * time.Second
	askTime = 30 * time.Second
)

// Discover asks the cluster for its API servers: those that report themselves as running. Every node may ask.
func Discover(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	slice, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the API servers: %w", err)
	}
	var addresses []string
	for _, port := range slice.Ports {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				if port.Port != nil {
					addresses = append(addresses, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// ReadList reads the API servers that were known last, one a line. A missing file means no servers.
func ReadList(name string) ([]string, error) {
	text, err := regularfile.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	addresses := strings.Fields(string(text))
	for _, address := range addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return addresses, nil
}

// WriteList keeps the list for the next start.
func WriteList(name string, addresses []string) error {
	return files.Write(name, []byte(strings.Join(addresses, "\n")+"\n"))
}

// Follow keeps the servers that discover returns, and the file too, until ctx ends. While discover fails they stay.
func (b *Balancer) Follow(ctx context.Context, file string, discover func(context.Context) ([]string, error)) {
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		asking, cancel := context.WithTimeout(ctx, askTime)
		addresses, err := discover(asking)
		cancel()
		if err == nil && len(addresses) > 0 && !slices.Equal(addresses, b.Servers()) {
			b.Set(ctx, addresses)
			err = WriteList(file, addresses)
		}
		if err != nil && ctx.Err() == nil {
			b.Log.Debug("the list of API servers stays as it is", "error", err)
		}
		return refresh
	})
}
