package metrics

import (
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster/pki"
)

// Severity of an alert, as most Alertmanagers route it.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // something fails now, or is lost
	Warning  Severity = "warning"  // something will fail unless a person acts
)

// Alert is one rule.
type Alert struct {
	Name     string
	Expr     string // PromQL
	For      time.Duration
	Severity Severity
	// Summary says what is wrong. It may have templates of Prometheus, as Command may.
	Summary string
	// Command is what to run, and where.
	Command string
}

// The limits of alerts.
const (
	endsSoon     = 30 * 24 * time.Hour  // of a certificate: Sealift renews four months before the end
	caEndsSoon   = 180 * 24 * time.Hour // a rotation of CAs is planned work
	drillOld     = 90 * 24 * time.Hour
	stuck        = 3 * time.Hour // longer than an upgrade of a large cluster without a person
	passOld      = 15 * time.Minute
	snapshotLate = 1.5 // intervals
)

// Alerts lists all rules. Expressions name no job: node_exporter has the metrics, however it is scraped.
func Alerts() []Alert {
	notCA := fmt.Sprintf(`kind!=%q`, pki.CA)
	isCA := fmt.Sprintf(`kind=%q`, pki.CA)
	return []Alert{
		{"SealiftMetricsOld", fmt.Sprintf("time() - sealift_last_pass_timestamp_seconds > %.0f", passOld.Seconds()), 5 * time.Minute, Warning,
			"sealift-agent writes no metrics on {{ $labels.instance }} any more; its other alerts show an old state",
			"on that node: systemctl status sealift-agent"},
		{"SealiftStatusFailed", "sealift_status_failed == 1", 10 * time.Minute, Warning,
			"the state of {{ $labels.instance }} cannot be read", "on that node: sudo sealift status"},
		{"SealiftCertificateEnds", fmt.Sprintf("0 < sealift_certificate_end_timestamp_seconds{%s} - time() < %.0f", notCA, endsSoon.Seconds()), time.Hour, Warning,
			"certificate {{ $labels.file }} of {{ $labels.instance }} ends in {{ $value | humanizeDuration }}",
			"on that node: sudo sealift certs renew"},
		{"SealiftCertificateEnded", "sealift_certificate_end_timestamp_seconds - time() <= 0", 0, Critical,
			"certificate {{ $labels.file }} of {{ $labels.instance }} has ended", "on that node: sudo sealift certs renew"},
		{"SealiftCertificateDamaged", "sealift_certificate_damaged == 1", 10 * time.Minute, Critical,
			"certificate {{ $labels.file }} of {{ $labels.instance }} is damaged, does not fit its key, or is not valid yet", "on that node: sudo sealift certs"},
		{"SealiftCAEnds", fmt.Sprintf("0 < sealift_certificate_end_timestamp_seconds{%s} - time() < %.0f", isCA, caEndsSoon.Seconds()), time.Hour, Warning,
			"CA {{ $labels.file }} of {{ $labels.instance }} ends in {{ $value | humanizeDuration }}", "on a control plane: sudo sealift certs rotate-ca --plan"},
		{"SealiftSnapshotOld", fmt.Sprintf("abs(time() - sealift_snapshot_timestamp_seconds) > %g * sealift_snapshot_interval_seconds", snapshotLate), 15 * time.Minute, Critical,
			"the last snapshot of {{ $labels.instance }} is older than the Installer promises, or none was saved",
			"on that node: journalctl --unit sealift-snapshots; sudo systemctl start sealift-snapshots"},
		{"SealiftDrillOld", fmt.Sprintf("time() - sealift_drill_timestamp_seconds > %.0f", drillOld.Seconds()), time.Hour, Warning,
			"no snapshot was tried on {{ $labels.instance }} for {{ $value | humanizeDuration }}", "on that node: sudo sealift restore --drill --identity snapshots.key"},
		{"SealiftDrillFailed", "sealift_drill_passed == 0", 0, Critical,
			"the last drill on {{ $labels.instance }} did not restore everything", "on that node: sudo sealift restore --drill --identity snapshots.key"},
		{"SealiftDiskShort", "sealift_disk_free_bytes < sealift_disk_needed_bytes", 15 * time.Minute, Warning,
			"{{ $labels.path }} of {{ $labels.instance }} has {{ $value | humanize1024 }}B left, too little for the next upgrade",
			"on that node: sudo sealift status; then make room or enlarge the disk"},
		{"SealiftOperationStuck", fmt.Sprintf("time() - sealift_operation_begin_timestamp_seconds > %.0f and sealift_operation_waiting == 0", stuck.Seconds()), 5 * time.Minute, Warning,
			"the change {{ $labels.operation }} of the cluster is unfinished after {{ $value | humanizeDuration }}",
			"on {{ $labels.instance }}: sudo sealift status; it names the command that resumes"},
		{"SealiftOperationFailed", "sealift_operation_failed == 1", 10 * time.Minute, Warning,
			"the change {{ $labels.operation }} of the cluster stopped with an error", "on {{ $labels.instance }}: sudo sealift status; it names the command that resumes"},
		{"SealiftRunStuck", fmt.Sprintf(`time() - sealift_last_step_timestamp_seconds > %.0f and on (instance) sealift_state{state=~"running|resetting"} == 1`, stuck.Seconds()), 5 * time.Minute, Warning,
			"a run on {{ $labels.instance }} has finished no step for {{ $value | humanizeDuration }}", "on that node: sudo sealift status"},
		{"SealiftRunInterrupted", `sealift_state{state=~"interrupted|failed"} == 1`, 30 * time.Minute, Warning,
			"work on {{ $labels.instance }} is unfinished: {{ $labels.state }}", "on that node: sudo sealift status; it names the command that goes on"},
		{"SealiftServiceStopped", "sealift_service_stopped == 1", 10 * time.Minute, Critical,
			"{{ $labels.unit }} of {{ $labels.instance }} does not run, or its last run failed", "on that node: journalctl -u {{ $labels.unit }}; sudo systemctl start {{ $labels.unit }}"},
		{"SealiftKernelSettingWrong", "sealift_kernel_setting_wrong == 1", 5 * time.Minute, Critical,
			"{{ $labels.name }} of {{ $labels.instance }} cuts pods off", "on that node: sudo systemctl restart kubelet"},
		{"SealiftAPINotReady", "sealift_api_ready == 0", 10 * time.Minute, Critical,
			"the Kubernetes API is not ready for {{ $labels.instance }}", "on that node: sudo sealift status"},
		{"SealiftNodeNotReady", "sealift_nodes_ready < sealift_nodes", 15 * time.Minute, Warning,
			"{{ $labels.instance }} sees only {{ $value }} nodes Ready", "on a control plane: sudo sealift status"},
		{"SealiftAddOnNotReady", "sealift_addon_ready == 0", 15 * time.Minute, Warning,
			"pods of {{ $labels.addon }} are not ready", "on a control plane: sudo sealift status"},
	}
}
