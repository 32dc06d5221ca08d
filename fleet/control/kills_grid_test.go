//go:build grid

package control_test

import (
	"testing"
	"time"
)

func TestHubResumesAfterThirtyKills(t *testing.T) { killHub(t, 30) }

// TestHubsShareFleetWithTheirOwnLeases is TestHubsShareFleet with Leases as a hub has them.
func TestHubsShareFleetWithTheirOwnLeases(t *testing.T) { shareFleet(t, 15*time.Second) }
