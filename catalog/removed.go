package catalog

// RemovedAPI returns the minor version of Kubernetes from which on the API of an object is no longer served, such as 1.25. It returns
// "" for an API that is served, or that is not Kubernetes' own (https://kubernetes.io/docs/reference/using-api/deprecation-guide/).
// Versions that were removed from a group and came back for other kinds are listed by kind.
func RemovedAPI(apiVersion, kind string) string {
	byKind := map[string]string{
		"extensions/v1beta1 Ingress":                                          "1.22",
		"admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration":   "1.22",
		"admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration": "1.22",
		"networking.k8s.io/v1beta1 Ingress":                                   "1.22",
		"networking.k8s.io/v1beta1 IngressClass":                              "1.22",
		"certificates.k8s.io/v1beta1 CertificateSigningRequest":               "1.22",
		"coordination.k8s.io/v1beta1 Lease":                                   "1.22",
		"storage.k8s.io/v1beta1 CSIDriver":                                    "1.22",
		"storage.k8s.io/v1beta1 CSINode":                                      "1.22",
		"storage.k8s.io/v1beta1 StorageClass":                                 "1.22",
		"storage.k8s.io/v1beta1 VolumeAttachment":                             "1.22",
		"storage.k8s.io/v1beta1 CSIStorageCapacity":                           "1.27",
	}
	byVersion := map[string]string{
		"extensions/v1beta1":                   "1.16",
		"apps/v1beta1":                         "1.16",
		"apps/v1beta2":                         "1.16",
		"apiextensions.k8s.io/v1beta1":         "1.22",
		"apiregistration.k8s.io/v1beta1":       "1.22",
		"rbac.authorization.k8s.io/v1beta1":    "1.22",
		"scheduling.k8s.io/v1beta1":            "1.22",
		"batch/v1beta1":                        "1.25",
		"discovery.k8s.io/v1beta1":             "1.25",
		"events.k8s.io/v1beta1":                "1.25",
		"autoscaling/v2beta1":                  "1.25",
		"node.k8s.io/v1beta1":                  "1.25",
		"policy/v1beta1":                       "1.25",
		"autoscaling/v2beta2":                  "1.26",
		"flowcontrol.apiserver.k8s.io/v1beta1": "1.26",
		"flowcontrol.apiserver.k8s.io/v1beta2": "1.29",
		"flowcontrol.apiserver.k8s.io/v1beta3": "1.32",
	}
	if removed, ok := byKind[apiVersion+" "+kind]; ok {
		return removed
	}
	return byVersion[apiVersion]
}
