package metrics

import (
	"cmp"
	"slices"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/inspect/status"
)

// states are all values of status.Status.State.
func states() []string {
	return []string{"none", "running", "interrupted", "failed", "installed", "resetting"}
}

// table lists all metrics. docs/monitoring.md has the same list.
func table() []metric {
	return slices.Concat(nodeMetrics(), certificateMetrics(), recoveryMetrics(), clusterMetrics())
}

func nodeMetrics() []metric {
	return []metric{
		{name: "sealift_last_pass_timestamp_seconds", help: "When these metrics were written.", read: func(p Pass) []sample { return seconds(p.Time) }},
		{name: "sealift_status_failed", help: "1 if the state of this node could not be read. Only these metrics without a state are written then.",
			read: func(p Pass) []sample { return one(flag(p.Failed)) }},
		{name: "sealift_info", help: "The sealift of this node. Always 1.", labels: []string{"version"},
			read: func(p Pass) []sample { return []sample{{1, []string{p.Version}}} }},
		{name: "sealift_healthy", help: "1 if 'sealift status' finds nothing wrong.", read: ifKnown(func(s status.Status) []sample { return one(flag(s.Healthy())) })},
		{name: "sealift_state", help: "1 for the state of this node, 0 for the others.", labels: []string{"state"},
			read: ifKnown(func(s status.Status) []sample {
				return each(states(), func(state string) sample { return sample{flag(state == s.State), []string{state}} })
			})},
		{name: "sealift_steps", help: "Steps of the last run.", read: ifKnown(func(s status.Status) []sample { return one(float64(s.Steps)) })},
		{name: "sealift_steps_finished", help: "Finished steps of the last run.", read: ifKnown(func(s status.Status) []sample { return one(float64(s.Finished)) })},
		{name: "sealift_last_step_timestamp_seconds", help: "When a step of this node began or ended last.", read: ifKnown(func(s status.Status) []sample { return seconds(s.LastStep) })},
		{name: "sealift_addon_info", help: "The add-ons of the last run on this node. Always 1.", labels: []string{"addon", "version", "state"},
			read: ifKnown(func(s status.Status) []sample {
				return each(s.AddOns, func(a status.AddOn) sample { return sample{1, []string{a.Name, a.Version, a.State}} })
			})},
		{name: "sealift_service_stopped", help: "1 for each systemd unit of the install that does not run, or whose last run failed.", labels: []string{"unit"},
			read: ifKnown(func(s status.Status) []sample {
				return each(s.Stopped, func(unit string) sample { return sample{1, []string{unit}} })
			})},
		{name: "sealift_kernel_setting_wrong", help: "1 for each kernel setting that breaks pods now.", labels: []string{"name"},
			read: ifKnown(func(s status.Status) []sample {
				var now []sample
				for _, one := range s.Settings {
					if one.File == "" {
						now = append(now, sample{1, []string{one.Name}})
					}
				}
				return now
			})},
		{name: "sealift_disk_free_bytes", help: "What the file system of a folder has left.", labels: []string{"path"},
			read: ifKnown(func(s status.Status) []sample {
				return each(s.Space, func(one status.Space) sample { return sample{float64(one.Free), []string{one.Path}} })
			})},
		{name: "sealift_disk_needed_bytes", help: "What an upgrade takes there whose bundle is as large as the installed one.", labels: []string{"path"},
			read: ifKnown(func(s status.Status) []sample {
				return each(s.Space, func(one status.Space) sample { return sample{float64(one.Needed), []string{one.Path}} })
			})},
	}
}

// ifKnown reads a status that could be read.
func ifKnown(read func(status.Status) []sample) func(Pass) []sample {
	return func(p Pass) []sample {
		if p.Failed {
			return nil
		}
		return read(p.Status)
	}
}

func certificateMetrics() []metric {
	return []metric{
		{name: "sealift_certificate_end_timestamp_seconds", help: "When a certificate of this node ends.", labels: []string{"file", "kind", "renewed_by"},
			read: ifKnown(func(s status.Status) (ends []sample) {
				for _, e := range s.AllCertificates {
					if e.End != nil {
						ends = append(ends, sample{unix(*e.End), []string{e.File, string(e.Kind), cmp.Or(e.RenewedBy, "nobody")}})
					}
				}
				return ends
			})},
		{name: "sealift_certificate_damaged", help: "1 for each certificate that cannot be read, does not fit its key, or is not valid yet.", labels: []string{"file"},
			read: ifKnown(func(s status.Status) (damaged []sample) {
				for _, e := range s.AllCertificates {
					if e.Problem != "" || e.Begin != nil {
						damaged = append(damaged, sample{1, []string{e.File}})
					}
				}
				return damaged
			})},
		{name: "sealift_certificate_renewal_timestamp_seconds", help: "When Sealift renews the next certificate of this node.",
			read: ifKnown(func(s status.Status) []sample { return seconds(s.NextRenewal) })},
	}
}

// recoveryMetrics are about snapshots and drills. A promised snapshot that never came has the time 0.
func recoveryMetrics() []metric {
	return []metric{
		{name: "sealift_snapshot_interval_seconds", help: "How often the Installer has this control plane save a snapshot.",
			read: ifKnown(func(s status.Status) []sample {
				if s.Snapshots == nil || s.Snapshots.Every == 0 {
					return nil
				}
				return one(s.Snapshots.Every)
			})},
		{name: "sealift_snapshot_timestamp_seconds", help: "When this control plane saved its last snapshot into a store; 0 if snapshots are promised and none was saved.",
			read: ifKnown(func(s status.Status) []sample {
				switch {
				case s.Snapshots == nil:
				case s.Snapshots.Last != nil:
					return seconds(s.Snapshots.Last.Time)
				case s.Snapshots.Every > 0:
					return one(0)
				}
				return nil
			})},
		{name: "sealift_drill_timestamp_seconds", help: "When a snapshot of this cluster was last tried on this node.",
			read: ifKnown(func(s status.Status) []sample {
				if s.Drill == nil {
					return nil
				}
				return seconds(s.Drill.Time)
			})},
		{name: "sealift_drill_passed", help: "1 if the last drill on this node restored everything.",
			read: ifKnown(func(s status.Status) []sample {
				if s.Drill == nil {
					return nil
				}
				return one(flag(s.Drill.Passed))
			})},
	}
}

// clusterMetrics are about the cluster as this node sees it. A worker sees only itself.
func clusterMetrics() []metric {
	operations := func(value func(status.UnderWay) float64, has func(status.UnderWay) bool) func(Pass) []sample {
		return ifKnown(func(s status.Status) (all []sample) {
			for _, u := range s.UnderWay {
				if has(u) {
					all = append(all, sample{value(u), []string{u.Kind}})
				}
			}
			return all
		})
	}
	always := func(status.UnderWay) bool { return true }
	operation := []string{"operation"}
	return []metric{
		{name: "sealift_api_ready", help: "1 if the Kubernetes API answers this node and is ready.",
			read: ifKnown(func(s status.Status) []sample {
				if s.API == nil {
					return nil
				}
				return one(flag(s.API.Ready))
			})},
		{name: "sealift_nodes", help: "Nodes of the cluster.", read: ifKnown(nodes(func(cluster.Node) bool { return true }))},
		{name: "sealift_nodes_ready", help: "Ready nodes of the cluster.", read: ifKnown(nodes(func(n cluster.Node) bool { return n.Ready }))},
		{name: "sealift_addon_ready", help: "1 if all pods of an add-on are ready. Only control planes know it.", labels: []string{"addon"},
			read: ifKnown(func(s status.Status) (all []sample) {
				for _, a := range s.AddOns {
					if a.Health == "ready" || a.Health == "not ready" {
						all = append(all, sample{flag(a.Health == "ready"), []string{a.Name}})
					}
				}
				return all
			})},
		{name: "sealift_operation_begin_timestamp_seconds", help: "When an unfinished change of all nodes began. Control planes report it.", labels: operation,
			read: operations(func(u status.UnderWay) float64 { return unix(u.Began) }, func(u status.UnderWay) bool { return !u.Began.IsZero() })},
		{name: "sealift_operation_waiting", help: "1 if that change is half done on no node, and waits for a person.", labels: operation,
			read: operations(func(u status.UnderWay) float64 { return flag(u.Waits) }, always)},
		{name: "sealift_operation_failed", help: "1 if the last run of that change ended with an error.", labels: operation,
			read: operations(func(u status.UnderWay) float64 { return flag(u.Failed) }, always)},
	}
}

func nodes(count func(cluster.Node) bool) func(status.Status) []sample {
	return func(s status.Status) []sample {
		if s.Sees != "cluster" || len(s.Nodes) == 0 { // a worker, or the API does not answer
			return nil
		}
		n := 0.0
		for _, one := range s.Nodes {
			n += flag(count(one))
		}
		return one(n)
	}
}
