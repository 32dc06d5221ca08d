// Package kubeconfig finds the cluster that a command line means, and says in plain words why it finds none.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Load reads the access to the cluster of a kubeconfig file, or of kubectl's default if file is "". context is one of its
// contexts, or "" for its current one.
func Load(kubeconfig, context string) (*rest.Config, error) { return load(kubeconfig, context, "") }

func load(kubeconfig, context, server string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	file := strings.Join(rules.GetLoadingPrecedence(), ", ")
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w; name another one with --kubeconfig", file, err)
	}
	if context != "" {
		loaded.CurrentContext = context
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: context, ClusterInfo: clientcmdapi.Cluster{Server: server},
	}).ClientConfig()
	if err == nil {
		return cfg, checkUser(loaded, file)
	}
	if problem := kubeconfigProblem(loaded); problem != "" {
		return nil, fmt.Errorf("find the cluster: kubeconfig %s %s; repair it, or name another one with --kubeconfig", file, problem)
	}
	return nil, fmt.Errorf("find the cluster: kubeconfig %s: %w; repair it, or name another one with --kubeconfig", file, err)
}

// kubeconfigProblem says in plain words what keeps a kubeconfig from naming a cluster, or nothing where client-go's own
// words have to do.
func kubeconfigProblem(c *clientcmdapi.Config) string {
	if len(c.Contexts)+len(c.Clusters)+len(c.AuthInfos) == 0 {
		return "does not exist or is empty"
	}
	if c.CurrentContext == "" {
		return "has no current-context; its contexts are " + names(c.Contexts)
	}
	context := c.Contexts[c.CurrentContext]
	if context == nil {
		return fmt.Sprintf("has no context %q, its current-context; its contexts are %s", c.CurrentContext, names(c.Contexts))
	}
	cluster := c.Clusters[context.Cluster]
	switch {
	case cluster == nil:
		return fmt.Sprintf("has no cluster %q, which its context %q names; its clusters are %s", context.Cluster, c.CurrentContext, names(c.Clusters))
	case cluster.Server == "":
		return fmt.Sprintf("has no server in its cluster %q", context.Cluster)
	}
	return ""
}

// checkUser refuses a context whose user is not in the kubeconfig: client-go would continue anonymously.
func checkUser(c *clientcmdapi.Config, file string) error {
	context := c.Contexts[c.CurrentContext]
	if context == nil || context.AuthInfo == "" || c.AuthInfos[context.AuthInfo] != nil {
		return nil
	}
	return fmt.Errorf("find the cluster: kubeconfig %s has no user %q, which its context %q names; its users are %s; repair it, or name another one with --kubeconfig",
		file, context.AuthInfo, c.CurrentContext, names(c.AuthInfos))
}

// names lists the keys of a part of a kubeconfig.
func names[V any](of map[string]V) string {
	if len(of) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

// InPodOr is Load, except that a process in a Pod without file and context gets the cluster of the Pod. server is the address of
// the API server, or "" for that of the kubeconfig or of the Pod.
func InPodOr(kubeconfig, context, server string) (*rest.Config, error) {
	if kubeconfig == "" && context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			cfg.Host = cmp.Or(server, cfg.Host)
			return cfg, nil
		} else if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("find the cluster of this Pod: %w; does it have a ServiceAccount token?", err)
		}
	}
	return load(kubeconfig, context, server)
}
