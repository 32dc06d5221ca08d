//go:build grid

package control_test

const kills = 30
