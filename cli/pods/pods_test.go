package pods_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/cli/pods"
	"github.com/sealift/sealift/internal/trust"
)

// TestPodsRunCommandOfTheirWork gives the command line of a pod to the command.
func TestPodsRunCommandOfTheirWork(t *testing.T) {
	w := pods.Work{Job: "sort", Words: []string{"things", "sort-in-pod"}, Does: "Sort one thing", For: "sealift things sort", Example: "--by size"}
	var o pods.Options
	o.Add(pflag.NewFlagSet("", pflag.ContinueOnError), "sort", "things")
	work := o.Batch(w, []string{"--by", "size", "--config", pods.File("a.yaml")}, map[string][]byte{}, trust.CAs{})
	var by, config string
	ran := false
	cmd := w.Command(func(context.Context) error {
		ran = true
		return nil
	})
	cmd.Flags().StringVar(&by, "by", "", "what decides")
	cmd.Flags().StringVar(&config, "config", "", "file")
	root, group := &cobra.Command{Use: "sealift"}, &cobra.Command{Use: "things"}
	root.AddCommand(group)
	group.AddCommand(cmd)
	root.SetArgs(work.Pod.Containers[0].Args)
	if err := root.Execute(); err != nil || !ran || by != "size" || config != "/etc/sealift/batch/a.yaml" {
		t.Errorf("%v: ran %t by %q with %q", err, ran, by, config)
	}
	if !cmd.Hidden || !strings.Contains(cmd.Short, "in a pod of 'sealift things sort --on kubernetes'") || work.Name != "sort" || !slices.Equal(w.Words, []string{"things", "sort-in-pod"}) {
		t.Errorf("%+v, %s", cmd, work.Name)
	}
}
