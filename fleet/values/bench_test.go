package values_test

import (
	"testing"

	"github.com/sealift/sealift/fleet/values"
)

// BenchmarkRenderOfAFleet renders the values of 2,000 clusters.
func BenchmarkRenderOfAFleet(b *testing.B) {
	object := parse(b, cluster)
	const text = "replicas: {{ .Cluster.Spec.Topology.Workers.MachineDeployments | len }}\ncidr: {{ .Cluster.spec.clusterNetwork.pods.cidrBlocks | join \",\" }}\n" +
		"{{ if eq .Cluster.metadata.labels.tier \"gold\" }}tier: gold{{ end }}\nnetwork: {{ .Cluster.spec.clusterNetwork | toYaml | nindent 2 }}\n"
	for b.Loop() {
		for range 2000 {
			if _, err := values.Render(b.Context(), values.Input{Name: "calico-rome", Template: text, Cluster: object}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
