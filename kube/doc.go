// Package kube applies, prunes and waits for Kubernetes objects: the one engine behind the installer, channels, the operator
// and the fleet. Package render builds objects from files.
//
// A set of objects travels through it in these calls:
//
//	objs, err := render.Build(dir)                                 // a kustomization directory becomes objects
//	result, err := engine.Apply(ctx, set, objs, kube.ApplyOptions{}) // the cluster gets them, and former members are pruned
//	err = engine.Wait(ctx, objs, kube.WaitOptions{})               // until they are ready, or the timeout
//	result, err = engine.Delete(ctx, set, kube.DeleteOptions{})    // and all of it is removed
//	err = engine.Adopt(ctx, from, to)                              // or another set gets it, object by object, in place
//
// Objects are applied server-side under one field manager, in stages: objects that others need come first. A set is an
// ApplySet as KEP-3659 defines it, so that kubectl and other tools can read who owns what. The engine never touches an
// object that belongs to another set, never takes a field from a manager it was not told to take over, and never prunes
// a Namespace, a CustomResourceDefinition or a PersistentVolumeClaim unless told.
//
// What the cluster holds already is not sent again: an unchanged set costs one list of each of its kinds. Drift is seen
// all the same, by the values and by who owns the fields.
//
// It talks to the API server alone, and holds no object longer than it needs to: of live objects it keeps the metadata
// alone.
package kube
