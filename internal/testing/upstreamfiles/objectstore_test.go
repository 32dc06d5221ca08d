package upstreamfiles

import (
	"strings"
	"testing"
)

// twoSecrets is kubectl for a hook: velero has the bucket site with one key, and a Secret of the store has it with another.
const twoSecrets = `#!/bin/sh
case " $* " in
*" get secret velero-bucket "*accessKey* | *" get secret bucket-site "*accessKey*) printf c2l0ZQ== ;;
*" get secret velero-bucket "*) printf dmVsZXJv ;;
*" get secret bucket-site "*) printf b3RoZXI= ;;
*" --ignore-not-found "*) ;;
*) exit 1 ;;
esac
`

// TestBucketHasOneKey: a bucket can be one of objectStore.buckets, and one of an add-on. The store knows one key of its owner.
func TestBucketHasOneKey(t *testing.T) {
	const ofVelero = `secretKey: "dmVsZXJv"`
	for call, own := range map[string]bool{
		"site object-store bucket-site":      true,
		"site velero velero-bucket":          true,
		"site registry registry-bucket":      true,
		"backups object-store bucket-backup": false,
		"backups velero velero-bucket":       false, // the Secret is that of the bucket before
	} {
		run := hooksRun{name: "object-store", instead: "object-store_credentials " + call + " /dev/stderr", files: map[string]string{"bin/kubectl": twoSecrets}}
		_, said, err := run.call(t)
		if err != nil || !strings.Contains(said, `secretKey: "`) || strings.Contains(said, ofVelero) != own || strings.Contains(said, `"b3RoZXI="`) {
			t.Errorf("%s: %v; wrote %s", call, err, said)
		}
	}
}
