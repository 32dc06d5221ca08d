// Package snapshot saves what a control plane needs to come back after it lost its data: etcd's database, the cluster's keys,
// and the Installer.
package snapshot
