{{- define "beacon.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "beacon.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "beacon.claim" -}}
{{ .Values.persistence.existingClaim | default (printf "%s-data" .Release.Name) }}
{{- end }}

{{/* What all containers have in common. */}}
{{- define "beacon.container" -}}
image: {{ include "beacon.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
envFrom:
  - secretRef: {name: {{ .Values.existingSecret }}}
  - configMapRef: {name: {{ .Release.Name }}-settings}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: static, mountPath: /data/static}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "beacon.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: data
    persistentVolumeClaim: {claimName: {{ include "beacon.claim" . }}}
  - name: static
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}
