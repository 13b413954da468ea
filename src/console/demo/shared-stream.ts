/** The script of the worker that holds each viewer's stream once for all tabs of this page. */
import { serveSharedStreams } from '@shoji/web-contract/client/shared-worker'

serveSharedStreams()
