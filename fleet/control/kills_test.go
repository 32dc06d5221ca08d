//go:build !grid

package control_test

// kills is how often the hub is killed in each run of the tests. The grid does it more often.
const kills = 3
