package upstreamfiles

import (
	"cmp"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube/render"
)

// otherBucket is kubectl for a hook: the cluster has a Secret with a bucket, but for the key that the file beside it names.
const otherBucket = `#!/bin/sh
case " $* " in
*" --namespace kube-system get secret offsite "*)
    key=${*##*=\{.data.}
    key=${key%\}}
    [ "$key" != "$(cat "$(dirname "$0")/lacks")" ] || exit 0
    case $key in
    endpoint) value=$(cat "$(dirname "$0")/endpoint") ;;
    region) value=us-east-1 ;;
    bucket) value=packages ;;
    *) value=the-$key ;;
    esac
    printf %s "$value" | base64 -w 0 ;;
*" wait backupstoragelocation/default "*) exit "$(cat "$(dirname "$0")/reached")" ;;
*) exit 1 ;;
esac
`

// Definitions of the two kinds that the hook makes objects of. TestVeleroBacksUpAndRestores has upstream's.
const veleroStandIn = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.velero.io}
spec:
  group: velero.io
  names: {kind: KIND, plural: PLURAL}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// bucketOutside is what the script answers.
type bucketOutside struct {
	endpoint string
	lacks    string // a key of the Secret
	away     bool   // whether Velero does not reach it
}

// veleroRun runs the hooks of the add-on with a bucket that is not in the cluster.
func veleroRun(b bucketOutside, options hook.Variables) hooksRun {
	reached := "0"
	if b.away {
		reached = "1"
	}
	all := hook.Variables{"VELERO_BUCKET_FROM": "kube-system/offsite"}
	all.Add(options)
	assets := releases.Newest("velero").Folder() + "/assets/"
	definition := func(kind, plural string) string {
		return strings.NewReplacer("KIND", kind, "PLURAL", plural).Replace(veleroStandIn)
	}
	return hooksRun{name: "velero", options: all, files: map[string]string{
		"bin/kubectl": otherBucket, "bin/endpoint": cmp.Or(b.endpoint, "https://s3.example.org:9000"), "bin/lacks": b.lacks, "bin/reached": reached,
		assets + "backupstoragelocations.yaml": definition("BackupStorageLocation", "backupstoragelocations"),
		assets + "schedules.yaml":              definition("Schedule", "schedules"),
	}}
}

// TestVeleroIsAppliedAndRemoved applies what the hooks make to an API server, again, and removes it. Without volumes, pods are as restricted
// as a namespace can require.
func TestVeleroIsAppliedAndRemoved(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	for name, with := range map[string]struct {
		options   hook.Variables
		templates int
		want      []string
	}{
		"by default": {nil, 0, []string{"- server - --default-backup-ttl=720h - --repo-maintenance-job-configmap=velero-maintenance - --default-volumes-to-fs-backup",
			"enforce: privileged", `s3Url: https://s3.example.org:9000`, "region: us-east-1", "bucket: packages", "accessKey: dGhlLWFjY2Vzc0tleQ==", "ca.crt: dGhlLWNhXC5jcnQ="}},
		"without volumes": {hook.Variables{"VELERO_VOLUMES": ""}, 1, []string{"enforce: restricted"}},
		"every option": {hook.Variables{"VELERO_SCHEDULE": "0 2 * * 1-5", "VELERO_KEEP": "48h", "VELERO_SERVER_FLAGS": "--log-level=debug,--features=EnableCSI"}, 2,
			[]string{"schedule: 0 2 * * 1-5", "ttl: 48h", "--default-backup-ttl=48h", "--log-level=debug - --features=EnableCSI"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, said, err := veleroRun(bucketOutside{}, with.options).call(t)
			if err != nil || strings.Contains(said, "warning") {
				t.Fatalf("%v: %s", err, said)
			}
			objects, err := render.Build(dir)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(string(document(t, objects))), " ")
			for _, want := range with.want {
				if !strings.Contains(text, want) {
					t.Errorf("the objects lack %q in %s", want, text)
				}
			}
			if name == "by default" {
				return // it has nothing that the others lack
			}
			row{}.checkApplied(t, objects)
			podsAreAdmitted(t, objects, with.templates)
		})
	}
}

// TestVeleroRefusesBadOptions has one option, or one thing that the Secret lacks, in each row.
func TestVeleroRefusesBadOptions(t *testing.T) {
	for says, with := range map[string]struct {
		lacks   string
		options hook.Variables
	}{
		"velero.localBucket must be 3 to 57 small letters, digits and dashes":      {"", hook.Variables{"VELERO_LOCAL_BUCKET": "A"}},
		"velero.bucketFrom must be NAMESPACE/NAME of a Secret":                     {"", hook.Variables{"VELERO_BUCKET_FROM": "offsite"}},
		"velero.schedule must be five fields of cron such as 0 2 * * *":            {"", hook.Variables{"VELERO_SCHEDULE": "daily"}},
		"velero.keep must be hours such as 720h":                                   {"", hook.Variables{"VELERO_KEEP": "30d"}},
		"velero.serverFlags: rm is not a flag such as --log-level=debug":           {"", hook.Variables{"VELERO_SERVER_FLAGS": "--a,rm"}},
		"name objectStore in the Installer, or a Secret in velero.bucketFrom":      {"", hook.Variables{"VELERO_BUCKET_FROM": ""}},
		"velero.bucketFrom: the Secret kube-system/offsite has no valid endpoint":  {"endpoint", nil},
		"velero.bucketFrom: the Secret kube-system/offsite has no valid bucket":    {"bucket", nil},
		"velero.bucketFrom: the Secret kube-system/offsite has no valid secretKey": {"secretKey", nil},
	} {
		if _, said, err := veleroRun(bucketOutside{lacks: with.lacks}, with.options).call(t); err == nil || !strings.Contains(said, says) {
			t.Errorf("%v: %v; said %q, want %q", with, err, said, says)
		}
	}
}

// TestVeleroWarnsOfUnreachableBucket installs the add-on all the same: the bucket may come back.
func TestVeleroWarnsOfUnreachableBucket(t *testing.T) {
	if _, said, err := veleroRun(bucketOutside{away: true}, nil).call(t); err != nil || !strings.Contains(said, "warning: Velero does not reach its bucket yet") {
		t.Errorf("%v; said %q", err, said)
	}
}
