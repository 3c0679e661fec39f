{{- define "canyon-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the number of a replica behind it. */}}
{{- define "canyon-agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "canyon-agent.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "canyon-agent.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "canyon-agent.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "canyon-agent.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "canyon-agent.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "canyon-agent.selector" -}}
app.kubernetes.io/name: {{ include "canyon-agent.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "canyon-agent.labels" -}}
{{ include "canyon-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "canyon-agent.image" -}}
{{- $repository := required "image.repository: where the cluster pulls the agent's image from; see docs/agent.md" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The agent makes a key of its own and keeps it in a Secret: true or nothing. */}}
{{- define "canyon-agent.ownKey" -}}
{{- if not (or .Values.canyon.serviceAccountId .Values.canyon.existingSecret) -}}true{{- end -}}
{{- end -}}

{{- define "canyon-agent.keySecret" -}}
{{- printf "%s-key" (include "canyon-agent.fullname" .) -}}
{{- end -}}

{{/* The port of an address, or nothing. */}}
{{- define "canyon-agent.port" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- if $port -}}{{ $port }}{{- else if eq $url.scheme "http" -}}80{{- else if eq $url.scheme "https" -}}443{{- end -}}
{{- end -}}
