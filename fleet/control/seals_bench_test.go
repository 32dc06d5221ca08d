package control

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
)

// BenchmarkSignedSeal checks the seal of one work, with the memory of good seals and without it.
func BenchmarkSignedSeal(b *testing.B) {
	key, err := signature.Generate()
	if err != nil {
		b.Fatal(err)
	}
	s := &signer{key: key}
	if s.public, err = key.Public(); err != nil {
		b.Fatal(err)
	}
	text, err := seal.Statement{Cluster: "rome", Work: "hello", Sequence: 1, Time: time.Now(), Digest: "0"}.Sign(key)
	if err != nil {
		b.Fatal(err)
	}
	had, err := seal.Read(text)
	if err != nil {
		b.Fatal(err)
	}
	work := &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "hello", Annotations: map[string]string{seal.Annotation: text}}}
	for name, forget := range map[string]bool{"remembered": false, "checked": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if forget {
					s.good.forget(types.NamespacedName{Namespace: "rome", Name: "hello"})
				}
				if !s.signed(work, had) {
					b.Fatal("the hub's own seal counts as another's")
				}
			}
		})
	}
}
