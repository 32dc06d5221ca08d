// Package immutable is imported by tests of programs with a cache of objects: one that changes an object of its cache, which others
// read, panics soon afterwards.
//
// client-go's caches compare their objects every second with copies if an environment variable says so when they are initialized. Go
// initializes packages in the order of their paths where nothing else orders them, so this package, which imports nothing else, is
// initialized before those of client-go.
package immutable

import "os"

func init() {
	if err := os.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true"); err != nil {
		panic(err)
	}
}
