// Package ocm has the types of Open Cluster Management's APIs as they are on the wire: what users write, and what its
// controllers and agents read. It has no behaviour. The numbers O- and X- in the packages beside it are rules of
// docs/reference/fleet.md.
package ocm
