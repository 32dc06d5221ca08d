package batch_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/batch"
)

func TestPodsOfAnotherVersionAreRefused(t *testing.T) {
	p := batch.Program{Sealift: "1.0.0", Image: "example.org/sealift:2"}
	if err := p.Check("1.0.0"); err != nil {
		t.Error(err)
	}
	if err := p.Check("2.0.0"); err == nil || !strings.Contains(err.Error(), "the image example.org/sealift:2 has sealift 2.0.0, and sealift 1.0.0 made the Job") {
		t.Errorf("got %v", err)
	}
}
