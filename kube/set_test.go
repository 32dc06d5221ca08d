package kube_test

import (
	"testing"

	"github.com/sealift/sealift/kube"
)

// The value is the one that kubectl uses for the set of the same parent, so that either tool recognizes the other's members.
func TestSetIDEqualsKubectls(t *testing.T) {
	want := "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
	if got := (kube.Set{Name: "my-set", Namespace: "test"}).ID(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSetWithoutNamespaceUsesDefault(t *testing.T) {
	if (kube.Set{Name: "a"}).ID() != (kube.Set{Name: "a", Namespace: kube.DefaultNamespace}).ID() {
		t.Error("the ids differ")
	}
}
