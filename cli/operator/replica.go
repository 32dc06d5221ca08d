package operator

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/operator"
)

// replicaFlags are the settings of several replicas, by addon-operator's names with another beginning.
type replicaFlags struct {
	several  bool
	pod      string
	duration time.Duration
}

// add defines the flags. prefix begins the names of their variables, such as SHELL_OPERATOR.
func (f *replicaFlags) add(cmd *cobra.Command, prefix string) {
	several, _ := strconv.ParseBool(os.Getenv(prefix + "_HA"))
	cmd.Flags().BoolVar(&f.several, "ha", several, "several replicas run: one leads, the others stand by ["+prefix+"_HA]")
	cmd.Flags().StringVar(&f.pod, "pod", os.Getenv(prefix+"_POD"), "name of this Pod, for --ha ["+prefix+"_POD]")
	cmd.Flags().DurationVar(&f.duration, "lease-duration", 35*time.Second, "how long a leader may be silent before another replica takes over, in whole seconds")
}

// options are nil if there is one replica.
func (f *replicaFlags) options(lease, namespace, address string) *operator.Replicas {
	if !f.several {
		return nil
	}
	return &operator.Replicas{Namespace: namespace, Lease: lease, Pod: f.pod, Address: address, Duration: f.duration}
}
