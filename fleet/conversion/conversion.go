// Package conversion converts OCM's add-on objects between v1alpha1, which is stored, and v1beta1 (O-4, X-26). It works
// on plain JSON, so fields that it does not know survive. What v1beta1 has no field for is kept in an annotation, so an
// object that a v1beta1 client writes back has lost nothing.
package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/configuration"
)

const group = "addon.open-cluster-management.io/"

// Annotations of v1beta1 objects.
const (
	// InstallNamespace has spec.installNamespace.
	InstallNamespace = group + "v1alpha1-install-namespace"
	// leftovers has the other fields that v1beta1 lacks, as JSON.
	leftovers = "fleet.sealift.dev/v1alpha1-fields"
)

// kubeSigner is the signer whose registrations are of type kubeClient.
const kubeSigner = "kubernetes.io/kube-apiserver-client"

type object = map[string]any

// Convert returns the object in a version, v1alpha1 or v1beta1. It does not change its arguments.
func Convert(in map[string]any, version string) (map[string]any, error) {
	from, _ := in["apiVersion"].(string)
	kind, _ := in["kind"].(string)
	to := group + version
	out := runtime.DeepCopyJSON(in)
	out["apiVersion"] = to
	if from == to {
		return out, nil
	}
	var err error
	switch {
	case from == group+"v1alpha1" && version == "v1beta1":
		err = upgrade(out, kind)
	case from == group+"v1beta1" && version == "v1alpha1":
		err = downgrade(out, kind)
	default:
		err = errors.New("conversion not supported")
	}
	if err != nil {
		return nil, fmt.Errorf("convert %s %v from %q to %q: %w", kind, child(in, "metadata")["name"], from, to, err)
	}
	return out, nil
}

func upgrade(o object, kind string) error {
	left := object{}
	switch kind {
	case "ClusterManagementAddOn":
		upgradeDefaults(child(o, "spec"), left)
		rename(child(o, "status"), "defaultconfigReferences", "defaultConfigReferences")
	case "ManagedClusterAddOn":
		if ns, found := take(child(o, "spec"), "installNamespace"); found {
			annotate(o, InstallNamespace, fmt.Sprint(ns))
		}
		upgradeStatus(child(o, "status"), left)
	case "AddOnDeploymentConfig", "AddOnTemplate":
	default:
		return errors.New("the kind has one version only")
	}
	if len(left) == 0 {
		return nil
	}
	text, err := json.Marshal(left)
	if err == nil {
		annotate(o, leftovers, string(text))
	}
	return err
}

func downgrade(o object, kind string) error {
	left := object{}
	if text, found := unannotate(o, leftovers); found {
		// a user may write any text here; unknown content is dropped
		if json.Unmarshal([]byte(text), &left) != nil {
			left = object{}
		}
	}
	switch kind {
	case "ClusterManagementAddOn":
		downgradeDefaults(child(o, "spec"), left)
		rename(child(o, "status"), "defaultConfigReferences", "defaultconfigReferences")
	case "ManagedClusterAddOn":
		if ns, found := unannotate(o, InstallNamespace); found {
			spec := child(o, "spec")
			if spec == nil {
				spec = object{}
				o["spec"] = spec
			}
			spec["installNamespace"] = ns
		}
		downgradeStatus(child(o, "status"), left)
	case "AddOnDeploymentConfig", "AddOnTemplate":
	default:
		return errors.New("the kind has one version only")
	}
	return nil
}

func upgradeDefaults(spec, left object) {
	keep(spec, left, "addOnConfiguration")
	configs, found := take(spec, "supportedConfigs")
	if !found {
		return
	}
	for _, c := range items(configs) {
		d, _ := take(c, "defaultConfig")
		c["name"] = configuration.NoDefault
		if d, ok := d.(object); ok {
			move(d, c, "name", "namespace")
		}
	}
	spec["defaultConfigs"] = configs
}

func downgradeDefaults(spec, left object) {
	restore(spec, left, "addOnConfiguration")
	configs, found := take(spec, "defaultConfigs")
	if !found {
		return
	}
	for _, c := range items(configs) {
		d := object{}
		move(c, d, "name", "namespace")
		if d["name"] != configuration.NoDefault && d["name"] != nil {
			c["defaultConfig"] = d
		}
	}
	spec["supportedConfigs"] = configs
}

func upgradeStatus(status, left object) {
	keep(status, left, "addOnConfiguration")
	for _, ref := range items(status["configReferences"]) {
		d := object{}
		move(ref, d, "name", "namespace")
		if _, found := ref["desiredConfig"]; !found && d["name"] != nil {
			d["specHash"] = ""
			ref["desiredConfig"] = d
		}
	}
	driver, found := take(status, "kubeClientDriver")
	for _, r := range items(status["registrations"]) {
		signer, _ := take(r, "signerName")
		member := object{}
		move(r, member, "subject")
		if signer != kubeSigner {
			rename(child(member, "subject"), "organizationUnit", "organizationUnits")
			member["signerName"] = signer
			r["type"], r["customSigner"] = "customSigner", member
			continue
		}
		keep(child(member, "subject"), left, "organizationUnit")
		if driver != nil {
			member["driver"], found = driver, false
		}
		r["type"] = "kubeClient"
		if len(member) > 0 {
			r["kubeClient"] = member
		}
	}
	if found {
		left["kubeClientDriver"] = driver
	}
}

func downgradeStatus(status, left object) {
	restore(status, left, "addOnConfiguration")
	for _, ref := range items(status["configReferences"]) {
		d := child(ref, "desiredConfig")
		for _, key := range []string{"name", "namespace"} {
			if value, found := d[key]; found {
				ref[key] = value
			}
		}
	}
	restore(status, left, "kubeClientDriver")
	for _, r := range items(status["registrations"]) {
		kind, _ := take(r, "type")
		kube, _ := take(r, "kubeClient")
		custom, _ := take(r, "customSigner")
		if kind == "customSigner" {
			if member, ok := custom.(object); ok {
				rename(child(member, "subject"), "organizationUnits", "organizationUnit")
				move(member, r, "signerName", "subject")
			}
			continue
		}
		r["signerName"] = kubeSigner
		if member, ok := kube.(object); ok {
			restore(child(member, "subject"), left, "organizationUnit")
			move(member, r, "subject")
			if driver, found := member["driver"]; found {
				status["kubeClientDriver"] = driver
			}
		}
	}
}
