package addon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
)

// Namespace is where records are kept. Every cluster has it, and it cannot be deleted.
const Namespace = "kube-system"

// Lease names the Lease in Namespace that a process holds while it applies or hands over add-ons. Without it, the objects of
// one owner could be left with the record of another.
const Lease = "sealift-channel"

// The labels of a record: the first one finds all records, the others are for people who list them with kubectl.
const (
	labelRecord  = "sealift.dev/record"
	labelOwner   = "sealift.dev/owner"
	labelPolicy  = "sealift.dev/policy"
	recordOfKind = "addon"
)

// Waiting returns the message of a run that waits for another one, which holds the Lease.
func Waiting(holder string) string {
	return fmt.Sprintf("another run applies add-ons to this cluster: waiting for it to end (its lease %s in %s names %s)", Lease, Namespace, holder)
}

// Manager is the field manager that writes records.
const Manager = "sealift-addon"

// ConfigMaps are the ConfigMaps of Namespace. A client of client-go's package dynamic is one.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Create(ctx context.Context, obj *unstructured.Unstructured, o metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj *unstructured.Unstructured, o metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions, subresources ...string) error
}

// Records are the ownership records of one cluster.
type Records struct {
	ConfigMaps ConfigMaps
	// Retry repeats a request to the API server over a short outage; nil asks once.
	Retry func(ctx context.Context, request func(context.Context) error) error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// RecordsOf returns the records of the cluster that a client reaches.
func RecordsOf(client dynamic.Interface) Records {
	return Records{ConfigMaps: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(Namespace)}
}

// OwnedError reports that an add-on has another owner.
type OwnedError struct{ Record Record }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("add-on %q belongs to %s, which applied version %s", e.Record.Name, e.Record.Owner, cmp.Or(e.Record.Version, "(none yet)"))
}

// List reads every record. One that cannot be read does not hide the others: it is missing, and named in the error.
func (r Records) List(ctx context.Context) ([]Record, error) {
	var list *unstructured.UnstructuredList
	err := r.do(ctx, func(ctx context.Context) (err error) {
		list, err = r.ConfigMaps.List(ctx, metav1.ListOptions{LabelSelector: labelRecord + "=" + recordOfKind})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the owners of add-ons: %w", err)
	}
	var records []Record
	var errs []error
	for i := range list.Items {
		record, err := read(&list.Items[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = append(records, record)
	}
	return records, errors.Join(errs...)
}

// Get reads the record of an add-on; found is false when it has none.
func (r Records) Get(ctx context.Context, name string) (record Record, found bool, err error) {
	var obj *unstructured.Unstructured
	err = r.do(ctx, func(ctx context.Context) (err error) {
		obj, err = r.ConfigMaps.Get(ctx, objectName(name), metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return Record{}, false, nil
	case err != nil:
		return Record{}, false, fmt.Errorf("read the owner of add-on %q: %w", name, err)
	}
	record, err = read(obj)
	if err == nil && record.Name != name {
		err = fmt.Errorf("ConfigMap %s/%s is the record of add-on %q, not of %q: rename one of them", Namespace, obj.GetName(), record.Name, name)
	}
	return record, err == nil, err
}

// Claim gives an add-on without an owner its owner, or confirms the owner. It fails with an *OwnedError when another one is.
// Objects in another set of the same owner still have to move: see Finish.
func (r Records) Claim(ctx context.Context, name string, o Ownership) (Record, error) {
	return r.change(ctx, name, func(record *Record) error {
		switch {
		case record.version == "":
			*record = Record{Name: name, Ownership: o}
			record.Applied = Applied{}
			return nil
		case record.Owner != o.Owner:
			return &OwnedError{*record}
		}
		if record.Set != o.Set && record.Moving == "" {
			record.Moving, record.Set = record.Set, o.Set
		}
		record.Policy = o.Policy
		return nil
	})
}

// SetApplied records what the owner has applied.
func (r Records) SetApplied(ctx context.Context, name string, owner Owner, applied Applied) (Record, error) {
	return r.change(ctx, name, func(record *Record) error {
		if record.version == "" {
			return fmt.Errorf("the record of add-on %q is gone; run the command again", name)
		}
		if record.Owner != owner {
			return &OwnedError{*record}
		}
		record.Applied = applied
		return nil
	})
}

// Forget removes the record of an add-on that its owner has removed. Without a record there is nothing to do.
func (r Records) Forget(ctx context.Context, name string, owner Owner) error {
	record, found, err := r.Get(ctx, name)
	switch {
	case err != nil || !found:
		return err
	case record.Owner != owner:
		return &OwnedError{record}
	}
	err = r.do(ctx, func(ctx context.Context) error {
		return r.ConfigMaps.Delete(ctx, objectName(name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &record.version}})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the owner record of add-on %q: %w", name, err)
	}
	return nil
}

// change reads a record, changes it, and writes it if it differs. If another writer was faster, it starts again with their
// record.
func (r Records) change(ctx context.Context, name string, change func(*Record) error) (after Record, err error) {
	for {
		before, found, err := r.Get(ctx, name)
		if err != nil {
			return Record{}, err
		}
		after = before
		if !found {
			after = Record{}
		}
		if err := change(&after); err != nil {
			return before, err
		}
		if found && reflect.DeepEqual(before, after) {
			return after, nil
		}
		err = r.do(ctx, func(ctx context.Context) (err error) {
			after.version, err = r.write(ctx, after, before.version)
			return err
		})
		// A record that is not found was deleted; one that is created is not found when the namespace is missing.
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && found {
			continue
		}
		if err != nil {
			return before, fmt.Errorf("record the owner of add-on %q: %w", name, err)
		}
		return after, nil
	}
}

// write writes a record if its version is still the given one.
func (r Records) write(ctx context.Context, record Record, version string) (string, error) {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace(Namespace)
	obj.SetName(objectName(record.Name))
	obj.SetResourceVersion(version)
	obj.SetLabels(map[string]string{
		"app.kubernetes.io/managed-by": "sealift", labelRecord: recordOfKind,
		labelOwner: record.Owner.Kind, labelPolicy: string(record.Policy),
	})
	data, err := record.encode()
	if err != nil {
		return "", err
	}
	if err := unstructured.SetNestedStringMap(obj.Object, data, "data"); err != nil {
		return "", err
	}
	if version == "" {
		obj, err = r.ConfigMaps.Create(ctx, obj, metav1.CreateOptions{FieldManager: Manager})
	} else {
		obj, err = r.ConfigMaps.Update(ctx, obj, metav1.UpdateOptions{FieldManager: Manager})
	}
	if err != nil {
		return "", err
	}
	return obj.GetResourceVersion(), nil
}

func (r Records) do(ctx context.Context, request func(context.Context) error) error {
	if r.Retry == nil {
		return request(ctx)
	}
	// A conflict is not transient: the record has to be read again.
	var final error
	err := r.Retry(ctx, func(ctx context.Context) error {
		final = request(ctx)
		if apierrors.IsConflict(final) || apierrors.IsAlreadyExists(final) || apierrors.IsNotFound(final) {
			return nil
		}
		return final
	})
	if err != nil {
		return err
	}
	return final
}

func (r Records) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

func read(obj *unstructured.Unstructured) (Record, error) {
	data, _, err := unstructured.NestedStringMap(obj.Object, "data")
	var record Record
	if err == nil {
		record, err = decode(data)
	}
	if err != nil {
		return Record{}, fmt.Errorf("ConfigMap %s/%s does not say who owns an add-on: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	record.version = obj.GetResourceVersion()
	return record, nil
}

// objectName names the ConfigMap of an add-on. A slash in the name of the add-on becomes a dot.
func objectName(addOn string) string {
	name := "addon-" + strings.ReplaceAll(addOn, "/", ".")
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		sum := sha256.Sum256([]byte(addOn))
		name = "addon-" + hex.EncodeToString(sum[:8])
	}
	return name
}
