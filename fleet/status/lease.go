package status

import (
	"fmt"
	"time"
)

// LeaseGrace is how old the Lease of an add-on may be.
const LeaseGrace = 5 * time.Minute

// Leased returns condition Available of an add-on whose health is its Lease (O-36). fresh reports whether the Lease is not older than LeaseGrace.
func Leased(addOn string, fresh bool) Condition {
	if fresh {
		return Condition{"Available", "True", "ManagedClusterAddOnLeaseUpdated", addOn + " add-on is available."}
	}
	return Condition{"Available", "False", "ManagedClusterAddOnLeaseUpdateStopped", addOn + " add-on is not available."}
}

// NoLease returns condition Available of an add-on whose Lease is not in a namespace of a cluster.
func NoLease(addOn, namespace, cluster string) Condition {
	return Condition{"Available", "Unknown", "ManagedClusterAddOnLeaseNotFound",
		fmt.Sprintf("The status of %s add-on is unknown: there is no Lease %s/%[1]s on %[3]s", addOn, namespace, cluster)}
}
