// Package crd has the CustomResourceDefinitions of the fleet, and the admission policies that keep agents of clusters from
// changing the hub's decisions. Names, fields, defaults and patterns are those of Open Cluster Management and of the Cluster
// API add-on provider for Helm, so users' objects apply unchanged (O-1 to O-5). Their files have no descriptions: docs/fleet.md
// documents the fields.
package crd

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube/render"
)

//go:embed hub caaph managed
var files embed.FS

// Conversion configures how the API server reaches the webhook that converts add-on objects.
type Conversion struct {
	// URL is where the webhook listens. Without one the Service is asked.
	URL string
	// Service and Namespace name a Service with port 443.
	Service, Namespace string
	// CA is the certificate authority of the webhook, as PEM.
	CA []byte
}

// Hub returns the definitions and the policies for a hub. The webhook converts kinds whose versions differ. Where they do not, the API
// server converts on its own, so the objects can be read while no hub runs.
func Hub(c Conversion) ([]*unstructured.Unstructured, error) {
	list, err := read("hub", "caaph")
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", o.GetName(), err)
		}
		if len(versions) < 2 {
			continue
		}
		conversion := map[string]any{"strategy": "None"}
		if !sameSchemas(versions) {
			conversion = c.strategy()
		}
		if err := unstructured.SetNestedMap(o.Object, conversion, "spec", "conversion"); err != nil {
			return nil, fmt.Errorf("definition %s: %w", o.GetName(), err)
		}
	}
	return list, nil
}

// sameSchemas reports whether all versions of a kind have the same fields.
func sameSchemas(versions []any) bool {
	var schemas []any
	for _, v := range versions {
		version, _ := v.(map[string]any)
		schemas = append(schemas, version["schema"])
	}
	return !slices.ContainsFunc(schemas, func(s any) bool { return !reflect.DeepEqual(s, schemas[0]) })
}

// Managed returns the definitions for a managed cluster.
func Managed() ([]*unstructured.Unstructured, error) { return read("managed") }

// ConversionPath is the path of the webhook behind a Service.
const ConversionPath = "/convert"

func (c Conversion) strategy() map[string]any {
	client := map[string]any{"caBundle": base64.StdEncoding.EncodeToString(c.CA)}
	if c.URL != "" {
		client["url"] = c.URL
	} else {
		client["service"] = map[string]any{"name": c.Service, "namespace": c.Namespace, "path": ConversionPath, "port": int64(443)}
	}
	return map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"clientConfig": client, "conversionReviewVersions": []any{"v1"}},
	}
}

// read returns the definitions of some folders, in the order of their names.
func read(folders ...string) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for _, folder := range folders {
		entries, err := fs.ReadDir(files, folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			text, err := files.ReadFile(path.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			objects, err := render.Decode(bytes.NewReader(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			list = append(list, objects...)
		}
	}
	return list, nil
}
