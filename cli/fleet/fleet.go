// Package fleet is the commands of a fleet: what runs on its hub and on its clusters, and how to look at it.
package fleet

import (
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/inventory"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/view"
)

// commands makes and runs the commands of this package.
type commands struct{ *app.App }

// Command groups the commands of a fleet.
func Command(app *app.App) *cobra.Command {
	a := commands{app}
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Roll add-ons out over many clusters",
		Long: `Roll add-ons out over many clusters, with the resources of Open Cluster Management. A hub decides which cluster gets what
and when. An agent on each cluster applies it and reports. docs/fleet.md shows all of it.`,
	}
	cmd.AddCommand(a.hubCommand(), a.joinCommand(), a.agentCommand(), a.clustersCommand(), a.carriedCommand(), a.statusCommand(), a.planCommand(),
		a.pauseCommand(), a.resumeCommand(), a.whyCommand(), a.packCommand(), a.applyCommand(), a.takeCommand())
	return cmd
}

// hubFlags say where the hub is.
type hubFlags struct{ file, context, namespace string }

func (f *hubFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "kubeconfig", "", "kubeconfig file of the hub (default: that of kubectl)")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig")
	cmd.Flags().StringVar(&f.namespace, "namespace", hub.DefaultNamespace, "namespace of the hub's own objects")
	_ = cmd.MarkFlagFilename("kubeconfig")
}

// connect returns a client of the hub without a cache.
func (f *hubFlags) connect() (*rest.Config, client.Client, error) {
	cfg, err := kubeconfig.Load(f.file, f.context)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, ocm.AddToScheme, caaph.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	cfg.QPS = -1 // the server has its own fairness
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	return cfg, c, err
}

// view reads the hub as far as the user may.
func (f *hubFlags) view(a commands) (view.View, error) {
	_, c, err := f.connect()
	if err != nil {
		return view.View{}, err
	}
	note := func(what string, err error) { a.Log.Warn("you may not read "+what, "error", err) }
	return view.View{Reader: inventory.Reader{Reader: view.Limited(c, note), Mapper: c.RESTMapper()}, Namespace: f.namespace, Now: time.Now, Note: note}, nil
}
