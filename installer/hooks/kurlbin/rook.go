package kurlbin

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

const (
	rookNamespace = "rook-ceph"
	// healthySeen is how often in a row Ceph must be healthy: it also reports that between two faults.
	healthySeen = 5
	// longWait bounds a wait for which the add-on set no timeout.
	longWait = 20 * time.Minute
)

func pollInterval() time.Duration { return 3 * time.Second }

var (
	cephClusters = schema.GroupVersionResource{Group: "ceph.rook.io", Version: "v1", Resource: "cephclusters"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// cluster is the one of $KUBECONFIG.
func cluster() (dynamic.Interface, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	c, err := kube.Connect(config, nil)
	if err != nil {
		return nil, err
	}
	return c.Dynamic(), nil
}

// cephHealth is nil when every Ceph cluster is healthy, or troubled only by checks that are to be ignored.
func cephHealth(ctx context.Context, c dynamic.Interface, ignored []string) error {
	list, err := c.Resource(cephClusters).Namespace(rookNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("check Ceph: %w", err)
	}
	if len(list.Items) == 0 {
		return errors.New("there is no Ceph cluster")
	}
	for _, one := range list.Items {
		if err := healthOf(one, ignored); err != nil {
			return err
		}
	}
	return nil
}

// harmlessChecks are the checks of Ceph that kURL never waits for: they stay although nothing is wrong, such as
// POOL_NO_REDUNDANCY on a single node.
func harmlessChecks() []string {
	return []string{"AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED", "MON_DISK_LOW", "POOL_NO_REDUNDANCY", "POOL_PG_NUM_NOT_POWER_OF_TWO", "RECENT_CRASH", "TOO_MANY_PGS"}
}

func healthOf(one unstructured.Unstructured, ignored []string) error {
	health, _, _ := unstructured.NestedString(one.Object, "status", "ceph", "health")
	if health == "HEALTH_OK" {
		return nil
	}
	details, _, _ := unstructured.NestedMap(one.Object, "status", "ceph", "details")
	var troubles []string
	for check := range details {
		if !slices.Contains(ignored, check) && !slices.Contains(harmlessChecks(), check) {
			troubles = append(troubles, check)
		}
	}
	if health != "" && len(details) > 0 && len(troubles) == 0 {
		return nil
	}
	slices.Sort(troubles)
	return fmt.Errorf("health of Ceph: %s %s", cmp.Or(health, "unknown"), strings.Join(troubles, ", "))
}

// until retries until it succeeds the wanted number of times in a row.
func until(ctx context.Context, limit time.Duration, times int, try func(context.Context) error) error {
	limit = speed.Stretch(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := 0
	err := poll.Until(ctx, pollInterval(), nil, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if seen++; err != nil {
			seen = 0
		}
		return seen == times, poll.NotYet(err)
	})
	if err != nil {
		return fmt.Errorf("not within %v: %w", limit, err)
	}
	return nil
}

// seconds reads a number of seconds; zero stands for longWait.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %q is not a number of seconds", ErrUsage, text)
	}
	if n == 0 {
		return longWait, nil
	}
	return time.Duration(n) * time.Second, nil
}

// positional parses flags that may stand after arguments, as kURL's do.
func positional(set *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := parse(set, args); err != nil {
			return nil, err
		}
		if set.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, set.Arg(0)), set.Args()[1:]
	}
}

func rookHealth(ctx context.Context, args []string, s Streams) error {
	set := flags(s)
	ignore := set.String("ignore-checks", "", "")
	if _, err := positional(set, args); err != nil {
		return err
	}
	c, err := cluster()
	if err != nil {
		return err
	}
	return cephHealth(ctx, c, strings.Split(*ignore, ","))
}

func rookWaitForHealth(ctx context.Context, args []string, s Streams) error {
	set := flags(s)
	ignore := set.String("ignore-checks", "", "")
	rest, err := positional(set, args)
	if err != nil {
		return err
	}
	limit := longWait
	if len(rest) > 0 {
		if limit, err = seconds(rest[0]); err != nil {
			return err
		}
	}
	c, err := cluster()
	if err != nil {
		return err
	}
	return until(ctx, limit, healthySeen, func(ctx context.Context) error { return cephHealth(ctx, c, strings.Split(*ignore, ",")) })
}

// rookWaitForVersion waits until all of Rook's deployments have a version in their label, and are up to date.
func rookWaitForVersion(label string) program {
	return func(ctx context.Context, args []string, s Streams) error {
		set := flags(s)
		timeout := set.String("timeout", "0", "")
		rest, err := positional(set, args)
		if err != nil {
			return err
		}
		if len(rest) != 1 {
			return fmt.Errorf("%w: give one version", ErrUsage)
		}
		limit, err := seconds(*timeout)
		if err != nil {
			return err
		}
		c, err := cluster()
		if err != nil {
			return err
		}
		return until(ctx, limit, 1, func(ctx context.Context) error { return atVersion(ctx, c, label, rest[0]) })
	}
}

func atVersion(ctx context.Context, c dynamic.Interface, label, version string) error {
	list, err := c.Resource(deployments).Namespace(rookNamespace).List(ctx, metav1.ListOptions{LabelSelector: "rook_cluster=" + rookNamespace})
	if err != nil {
		return fmt.Errorf("check Rook: %w", err)
	}
	if len(list.Items) == 0 {
		return errors.New("there are no deployments of Rook")
	}
	for _, item := range list.Items {
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &d); err != nil {
			return err
		}
		if err := deploymentAt(d, label, version); err != nil {
			return err
		}
	}
	return nil
}

// deploymentAt checks one deployment. Old versions of Rook leave the label of some deployments empty, or at 0.0.0; kURL passes
// over those.
func deploymentAt(d appsv1.Deployment, label, version string) error {
	has, want := strings.TrimPrefix(d.Labels[label], "v"), strings.TrimPrefix(version, "v")
	if has == "" || strings.Contains(has, "0.0.0") {
		return nil
	}
	if has != want && !strings.HasPrefix(has, want+"-") {
		return fmt.Errorf("deployment %s has %s %s", d.Name, label, d.Labels[label])
	}
	if ready := min(d.Status.UpdatedReplicas, d.Status.ReadyReplicas); d.Spec.Replicas != nil && ready < *d.Spec.Replicas {
		return fmt.Errorf("deployment %s has %d of %d replicas up to date and ready", d.Name, ready, *d.Spec.Replicas)
	}
	return nil
}
