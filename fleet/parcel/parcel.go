// Package parcel has the files that are carried between a hub and a disconnected cluster: parcels there, reports back. It is
// pure: who writes works and who applies them is in the packages carry and agent.
//
// A parcel is a bundle (docs/format.md), signed with the key of the hub. Its file Name says for which cluster it is, and has
// the cluster's works, each with its own seal; its packages have the content. A report is a JSON document that is signed
// with the key that the cluster got when it joined.
package parcel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/regularfile"
)

// Format names the documents that this package writes and reads.
const Format = "sealift.dev/fleet/parcel/v1"

// Name is the path of the parcel's own document in its bundle.
const Name = "fleet/parcel.json"

// Suffix and ReportSuffix end the names of files: oslo.parcel, oslo.report.
const (
	Suffix       = ".parcel"
	ReportSuffix = ".report"
)

// The most that is read of documents, in bytes.
const (
	maxParcel = 256 << 20
	maxReport = 128 << 20
)

// Parcel is sent by a hub to a cluster.
type Parcel struct {
	Format  string `json:"format"`
	Cluster string `json:"cluster"`
	// Sequence is the parcel's number in the sequence that works are signed with.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	// Works are all works of the cluster. What the cluster has besides, it loses.
	Works []Work `json:"works"`
	// Releases are the Helm releases of the cluster. What the cluster has besides, it keeps.
	Releases []Release `json:"releases,omitempty"`
}

// Release is a Helm release in a parcel. The cluster loses one whose proxy is being deleted.
type Release struct {
	Proxy caaph.HelmReleaseProxy `json:"proxy"`
	// Chart is the sha256 of the chart's archive, which is the file ChartFile of the parcel.
	Chart string `json:"chart,omitempty"`
	// Mirrors are where the cluster finds images.
	Mirrors []ocm.ImageMirror `json:"mirrors,omitempty"`
}

// ChartFile is the path of a chart in the bundle of a parcel.
func ChartFile(sha256 string) string { return "fleet/charts/" + sha256 + ".tgz" }

// Work is a work in a parcel.
type Work struct {
	Name string        `json:"name"`
	Seal string        `json:"seal"`
	Spec ocm.AgentSpec `json:"spec"`
	// Deleted means that the work is to be removed from the cluster.
	Deleted bool `json:"deleted,omitempty"`
}

// ReadArchive opens the bundle of a parcel and checks its signature. Close it.
func ReadArchive(file string, keys []signature.PublicKey) (_ *bundle.Archive, p Parcel, err error) {
	a, err := bundle.Open(file, keys...)
	if err != nil {
		return nil, p, fmt.Errorf("open the parcel: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	// packages that others signed do not make a parcel
	if trust, err := a.VerifySignature(keys...); err != nil || trust.Signer == "" {
		return nil, p, fmt.Errorf("%s: the parcel is not signed with the key of the hub that was pinned when the cluster joined: %w", file, errors.Join(bundle.ErrUntrusted, err))
	}
	if p, err = ReadUnpacked(a); err != nil {
		return nil, p, fmt.Errorf("%s: %w", file, err)
	}
	return a, p, nil
}

// ReadUnpacked reads the document of a parcel from its bundle. It checks no signature.
func ReadUnpacked(a *bundle.Archive) (p Parcel, err error) {
	text, err := a.ReadFile(Name, maxParcel)
	if err != nil {
		return p, fmt.Errorf("not a parcel: %w", err)
	}
	if err := decode(text, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", Name, err)
	}
	if p.Format != Format {
		return p, fmt.Errorf("format %q is not known; this sealift reads %q", p.Format, Format)
	}
	return p, nil
}

// ReadWork reads a work from JSON.
func ReadWork(text []byte) (one Work, err error) {
	err = decode(text, &one)
	return one, err
}

// decode reads one JSON document without fields that it does not know.
func decode(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	in.UseNumber() // integers of manifests are not changed
	if err := in.Decode(into); err != nil {
		return err
	}
	if in.Decode(new(any)) != io.EOF {
		return errors.New("unexpected data after the document")
	}
	return nil
}

// Last has the numbers of the last parcel and report of a cluster.
type Last struct {
	Sequence int64     `json:"sequence,omitempty"`
	Digest   string    `json:"digest,omitempty"` // of the bundle
	Time     time.Time `json:"time,omitzero"`    // when it was begun
	// Done means that all of the parcel was applied, and its report written.
	Done bool `json:"done,omitempty"`
	// Report is the number of the last report.
	Report int64 `json:"report,omitempty"`
}

// Check refuses a parcel that is not the next of its cluster. An unfinished one may be resumed.
func (p Parcel) Check(cluster, digest string, last Last, maxAge time.Duration, now time.Time) error {
	refuse := func(reason seal.Reason, format string, args ...any) error {
		return &seal.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case p.Cluster != cluster:
		return refuse(seal.OtherCluster, "the parcel is for cluster %s, and this is %s", p.Cluster, cluster)
	case p.Sequence == last.Sequence && digest == last.Digest && last.Done:
		return refuse(seal.Older, "the parcel with number %d was applied on %s; without a parcel, 'sealift fleet apply' writes a new report",
			p.Sequence, last.Time.Format(time.RFC3339))
	case p.Sequence == last.Sequence && digest == last.Digest:
		return nil
	case p.Sequence == last.Sequence:
		return refuse(seal.HubWentBack, "another parcel with number %d was applied before: the hub was restored from a backup. Run on the hub: kubectl annotate managedcluster %s --overwrite %s=%d",
			p.Sequence, cluster, seal.ContinueAfter, last.Sequence)
	case p.Sequence < last.Sequence:
		return refuse(seal.Older, "the parcel with number %d is older than number %d, which was applied on %s", p.Sequence, last.Sequence, last.Time.Format(time.RFC3339))
	case p.Time.After(now.Add(time.Hour)):
		return refuse(seal.ClocksDiffer, "the parcel was made at %s, and it is %s here: set the clocks of the hub and of this cluster", p.Time.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case maxAge > 0 && now.Sub(p.Time) > maxAge:
		return refuse(seal.TooOld, "the parcel was made at %s, more than %s ago: make a new one, or allow more with --max-age", p.Time.Format(time.RFC3339), maxAge)
	}
	return nil
}

// Report is sent back by a cluster.
type Report struct {
	Format  string    `json:"format"`
	Cluster string    `json:"cluster"`
	Number  int64     `json:"number"`
	Time    time.Time `json:"time"`
	// Parcel is the number of the last parcel, and Highest the highest number that the cluster has seen.
	Parcel  int64 `json:"parcel,omitempty"`
	Highest int64 `json:"highest,omitempty"`

	Version     string                       `json:"version,omitempty"`
	Claims      []ocm.ClusterClaim           `json:"claims,omitempty"`
	Capacity    map[string]resource.Quantity `json:"capacity,omitempty"`
	Allocatable map[string]resource.Quantity `json:"allocatable,omitempty"`

	Works []WorkReport `json:"works"`
	// Gone are works whose objects were removed.
	Gone     []string        `json:"gone,omitempty"`
	Releases []ReleaseReport `json:"releases,omitempty"`
	// Content is the index of the bundle with everything that the cluster was sent so far.
	Content string `json:"content,omitempty"`
}

// WorkReport is the result of applying a work.
type WorkReport struct {
	Name string `json:"name"`
	// Seal identifies the applied work.
	Seal   seal.Mark              `json:"seal"`
	Status ocm.ManifestWorkStatus `json:"status"`
}

// ReleaseReport is the result of installing a Helm release.
type ReleaseReport struct {
	Namespace string    `json:"namespace"` // of its proxy, as is Name
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Generation is that of the applied proxy.
	Generation int64 `json:"generation,omitempty"`
	// Removed means that the cluster no longer has the release.
	Removed     bool                         `json:"removed,omitempty"`
	Annotations map[string]string            `json:"annotations,omitempty"`
	ReleaseName string                       `json:"releaseName,omitempty"`
	Status      caaph.HelmReleaseProxyStatus `json:"status,omitzero"`
}

// envelope is a report in its carried form.
type envelope struct {
	Report    json.RawMessage `json:"report"`
	Signature string          `json:"signature"`
}

// purpose prefixes the signed bytes of a report.
const purpose = "sealift.dev/fleet/report/v1\n"

// Write returns the file of a report.
func (r Report) Write(key *signature.Key) ([]byte, error) {
	r.Format = Format
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sig, err := key.Sign(append([]byte(purpose), text...))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the bytes of the report must stay the signed ones
	err = enc.Encode(envelope{text, string(bytes.TrimSpace(sig))})
	return out.Bytes(), err
}

// LoadReport reads a file for ReadReport. It reads no file that is too large for a report.
func LoadReport(name string) ([]byte, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxReport {
		return nil, tooLarge(info.Size())
	}
	return io.ReadAll(io.LimitReader(f, maxReport)) // it may grow
}

func tooLarge(size int64) error {
	return fmt.Errorf("the report has %d bytes, more than %d", size, maxReport)
}

// ReadReport reads the file of a report. It verifies nothing: the key depends on the cluster that the report names.
func ReadReport(file []byte) (r Report, verify func(signature.PublicKey) error, err error) {
	if len(file) > maxReport {
		return r, nil, tooLarge(int64(len(file)))
	}
	var e envelope
	if err := decode(file, &e); err != nil {
		return r, nil, fmt.Errorf("read the report: %w", err)
	}
	if err := decode(e.Report, &r); err != nil {
		return r, nil, fmt.Errorf("read the report: %w", err)
	}
	if r.Format != Format {
		return r, nil, fmt.Errorf("format %q of the report is not known; this sealift reads %q", r.Format, Format)
	}
	return r, func(key signature.PublicKey) error {
		if !key.Verify(append([]byte(purpose), e.Report...), []byte(e.Signature)) {
			return &seal.Refusal{Reason: seal.UntrustedKey, Message: fmt.Sprintf(
				"the report is not signed with the key that cluster %s got when it joined: it was changed on its way, or the cluster has joined again since", r.Cluster)}
		}
		return nil
	}, nil
}
