// Package ocm has the types of Open Cluster Management's APIs as they are on the wire: what users write, and what its
// controllers and agents read. It has no behaviour. Upstream's module, open-cluster-management.io/api, is not imported: the module proxy
// that Sealift is built with does not serve it. The numbers O- and X- in the packages beside it are rules of
// docs/reference/fleet.md.
package ocm
