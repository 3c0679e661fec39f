//! The kinds whose job is a Kubernetes Job: `kubernetes`, `kubernetes-gke`, `kubernetes-eks`,
//! `kubernetes-aks`. They differ in how the cluster is found and lets Canyon in.
