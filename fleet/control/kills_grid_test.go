//go:build grid

package control_test

import (
	"testing"
	"time"
)

func TestHubResumesAfterThirtyKills(t *testing.T) { killHub(t, 30) }

// TestHubsShareAFleetWithTheirOwnLeases is TestHubsShareAFleet with Leases as a hub has them.
func TestHubsShareAFleetWithTheirOwnLeases(t *testing.T) { shareFleet(t, 15*time.Second) }
